// Bytes as people read them.
#ifndef MESHSEAL_SCHEMA_BYTE_TEXT_H_
#define MESHSEAL_SCHEMA_BYTE_TEXT_H_

#include <cstdint>
#include <string>

namespace meshseal {

// "512 B", "3.2 KiB", "7.1 GiB": binary units, one decimal above bytes.
std::string ByteText(uint64_t bytes);

// "450.0 GB/s", "989.0 TFLOP/s": decimal units, one decimal; `unit` is "B/s" or "FLOP/s".
std::string PerSecondText(uint64_t rate, const char* unit);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_BYTE_TEXT_H_
