#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bespoke::testing {

struct ZipEntry {
  std::string name;
  std::string content;
  int method = 0;  // 0: `packed` is not used; 8: `packed` is the content deflated
  std::string packed = "";
  int flags = 0;
};

inline std::string little_endian(uint64_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i) result += static_cast<char>(value >> (8 * i));
  return result;
}

inline uint32_t crc32(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

// An archive as the format's description has it, made without libzip.
inline std::string zip_bytes(const std::vector<ZipEntry>& entries) {
  std::string files;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    const std::string& stored = entry.method == 0 ? entry.content : entry.packed;
    const std::string common =
        little_endian(static_cast<uint64_t>(entry.flags), 2) +
        little_endian(static_cast<uint64_t>(entry.method), 2) + little_endian(0, 2) +
        little_endian(0x21, 2) + little_endian(crc32(entry.content), 4) +
        little_endian(stored.size(), 4) + little_endian(entry.content.size(), 4) +
        little_endian(entry.name.size(), 2) + little_endian(0, 2);
    directory += "PK\x01\x02" + little_endian(20, 2) + little_endian(20, 2) + common +
                 std::string(10, '\0') + little_endian(files.size(), 4) + entry.name;
    files += "PK\x03\x04" + little_endian(20, 2) + common + entry.name + stored;
  }
  return files + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(entries.size(), 2) +
         little_endian(entries.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(files.size(), 4) + little_endian(0, 2);
}

}  // namespace bespoke::testing
