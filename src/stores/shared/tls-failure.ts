// How a connection by TLS fails, told to people: whose certificate is wrong and what to do about it (P17). Nothing of this mends
// itself, so it is not worth repeating. Known by words too, because some clients hand on nothing else.

const KNOWN: readonly (readonly [RegExp, string])[] = [
  [
    /ERR_TLS_CERT_ALTNAME_INVALID|does not match certificate's altnames/,
    "its certificate is for another name: connect by a name that the certificate has, or let one be made for this name",
  ],
  [
    /SELF_SIGNED|self[- ]signed certificate|UNABLE_TO_VERIFY|unable to verify the first|UNABLE_TO_GET_ISSUER|unable to get (local )?issuer|CERT_UNTRUSTED/,
    "its certificate was not signed by anybody whom this process trusts: name the authority's certificate in the options of TLS (ca), or its file in NODE_EXTRA_CA_CERTS",
  ],
  [
    /CERT_HAS_EXPIRED|certificate has expired|CERT_NOT_YET_VALID|certificate is not yet valid/,
    "its certificate has expired or is not valid yet: renew it, and look at the clocks",
  ],
  [
    /alert (bad certificate|certificate required|unknown ca|certificate unknown|number 42|number 116)|CERTIFICATE_REQUIRED/i,
    "it asks for a certificate of this client, or does not trust the one that it was given (cert, key)",
  ],
  [
    /wrong version number|WRONG_VERSION_NUMBER|does not support (SSL|secure) connection/,
    "it does not speak TLS at this port: enable it there, or use the URL without TLS",
  ],
];

const DEEPEST_CAUSE = 4;

/** null when it failed for another reason. */
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
