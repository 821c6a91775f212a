// Explains TLS failures: which certificate is wrong and what to do about it (P17). A retry cannot help
// against them. The patterns include messages, because some clients drop the code of the error.

const KNOWN: readonly (readonly [RegExp, string])[] = [
  [
    /ERR_TLS_CERT_ALTNAME_INVALID|does not match certificate's altnames/,
    "its certificate is for another name: connect by a name in the certificate, or issue one for this name",
  ],
  [
    /SELF_SIGNED|self[- ]signed certificate|UNABLE_TO_VERIFY|unable to verify the first|UNABLE_TO_GET_ISSUER|unable to get (local )?issuer|CERT_UNTRUSTED/,
    "this process does not trust the authority that signed its certificate: pass the authority's certificate " +
      "in the TLS options (ca), or its file in NODE_EXTRA_CA_CERTS",
  ],
  [
    /CERT_HAS_EXPIRED|certificate has expired|CERT_NOT_YET_VALID|certificate is not yet valid/,
    "its certificate has expired or is not valid yet: renew it, and check the clocks",
  ],
  [
    /alert (bad certificate|certificate required|unknown ca|certificate unknown|number 42|number 116)|CERTIFICATE_REQUIRED/i,
    "it requires a client certificate, or does not trust the one that it got: check the TLS options cert and key",
  ],
  [
    /wrong version number|WRONG_VERSION_NUMBER|does not support (SSL|secure) connection/,
    "it does not speak TLS on this port: enable TLS on the server, or use the URL scheme without TLS",
  ],
];

const DEEPEST_CAUSE = 4;

/** What is wrong and what to do, or null if the error is not a TLS failure. */
export function tlsFailure(error: unknown): string | null {
  let one = error;
  for (let depth = 0; depth < DEEPEST_CAUSE && one !== undefined && one !== null; depth += 1) {
    const { code, message, details } = one as { code?: unknown; message?: unknown; details?: unknown };
    const text = [code, message, details].filter((part) => typeof part === "string").join(" ");
    const known = KNOWN.find(([pattern]) => pattern.test(text));
    if (known !== undefined) return known[1];
    one = (one as { cause?: unknown }).cause;
  }
  return null;
}
