-- Where a connection is: {server} is what tells servers of its kind apart.
SELECT DATABASE() AS place_name, {server} AS place_server
