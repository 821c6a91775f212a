// What a server needs to speak TLS: files in PEM. Clients need no certificate of their own.

export interface ServerTls {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}
