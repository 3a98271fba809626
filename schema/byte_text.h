// Bytes as people read them.
#ifndef MESHSEAL_SCHEMA_BYTE_TEXT_H_
#define MESHSEAL_SCHEMA_BYTE_TEXT_H_

#include <cstdint>
#include <string>

namespace meshseal {

// "512 B", "3.2 KiB", "7.1 GiB": binary units, one decimal above bytes.
std::string ByteText(uint64_t bytes);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_BYTE_TEXT_H_
