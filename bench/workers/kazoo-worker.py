# The lock recipe of kazoo, in the same contests as ours: argument is one JSON object, result one JSON line after "ready".
import json, sys, threading, time
from kazoo.client import KazooClient

wish = json.loads(sys.argv[1])
client = KazooClient(hosts=wish["hosts"], timeout=10)
client.start()
tasks, section_s, seconds = wish["tasks"], wish["sectionMs"] / 1000, wish["seconds"]
served, longest, sections, cycles = [0] * tasks, [0.0] * tasks, [], []
with client.Lock("/kazoo/warm"):
    pass
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + seconds


def task(i):
    lock = client.Lock("/kazoo/" + wish["key"])
    while time.monotonic() < end:
        asked = time.monotonic()
        lock.acquire()
        got = time.monotonic()
        longest[i] = max(longest[i], (got - asked) * 1000)
        if got < end:
            served[i] += 1
        if section_s > 0:
            time.sleep(section_s)
        released = time.monotonic()
        lock.release()
        done = time.monotonic()
        cycles.append((done - asked) * 1000)
        sections.append([got * 1000, released * 1000])
        if wish.get("pauseMs"):
            time.sleep(wish["pauseMs"] / 1000)


threads = [threading.Thread(target=task, args=(i,)) for i in range(tasks)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
client.stop()
print(json.dumps({"served": served, "longestWaitMs": max(longest), "sections": sections, "cycles": cycles}))
