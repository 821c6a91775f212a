// The slot of a key in a Redis Cluster, one of 16,384: CRC16 (XMODEM) of the hash tag, which is the text
// between the first brace and the next closing one, or of the whole key.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model

export const SLOTS = 16_384;

const POLYNOMIAL = 0x1021;

const TABLE: readonly number[] = Array.from({ length: 256 }, (_none, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ POLYNOMIAL;
  return crc & 0xffff;
});

export function slotOf(key: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTagOf(key))) {
    crc = ((crc << 8) ^ (TABLE[(crc >> 8) ^ byte] as number)) & 0xffff;
  }
  return crc % SLOTS;
}

function hashTagOf(key: string): string {
  const open = key.indexOf("{");
  const close = key.indexOf("}", open + 1);
  return open === -1 || close <= open + 1 ? key : key.slice(open + 1, close);
}
