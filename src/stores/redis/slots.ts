// Which of the 16,384 parts of a Redis Cluster a name belongs to: CRC16 (XMODEM) of what stands between the first brace and
// the next closing one, or of the whole name.

export const SLOTS = 16_384;

const POLYNOMIAL = 0x1021;

const TABLE: readonly number[] = Array.from({ length: 256 }, (_none, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ POLYNOMIAL;
  return crc & 0xffff;
});

export function slotOf(name: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tagOf(name))) {
    crc = ((crc << 8) ^ (TABLE[(crc >> 8) ^ byte] as number)) & 0xffff;
  }
  return crc % SLOTS;
}

function tagOf(name: string): string {
  const open = name.indexOf("{");
  const close = name.indexOf("}", open + 1);
  return open === -1 || close <= open + 1 ? name : name.slice(open + 1, close);
}
