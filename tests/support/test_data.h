// Files of tests/data.
#ifndef MESHSEAL_TESTS_SUPPORT_TEST_DATA_H_
#define MESHSEAL_TESTS_SUPPORT_TEST_DATA_H_

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace meshseal::support {

// The bytes of tests/data/NAME.
inline std::string TestData(const std::string& name) {
  std::ifstream stream(std::string(MESHSEAL_TEST_DATA) + "/" + name, std::ios::binary);
  EXPECT_TRUE(stream.good()) << name;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_TEST_DATA_H_
