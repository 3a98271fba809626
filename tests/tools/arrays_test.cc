#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "schema/reason.h"
#include "schema/safetensors.h"
#include "tools/arrays/array_file.h"
#include "tools/arrays/compare.h"

namespace meshseal::tools {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class Element>
Array MakeArray(DType dtype, std::vector<uint64_t> shape, const std::vector<Element>& values) {
  Array array{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(Element))};
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class ArrayFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "arrays-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // "reason-slug | text" without the folder's name, or "accepted".
  std::string VerdictOf(const absl::Status& status) const {
    if (status.ok()) return "accepted";
    const std::optional<Reason> reason = ReasonOf(status);
    return absl::StrReplaceAll(
        absl::StrCat(reason.has_value() ? RowOf(*reason).slug : "no reason", " | ", status.message()),
        {{absl::StrCat(folder_.string(), "/"), ""}});
  }

  std::string ReadVerdict(const std::string& bytes) const {
    std::ofstream(Path("x.npy"), std::ios::binary) << bytes;
    return VerdictOf(ReadArray(Path("x.npy")).status());
  }

  // The names in the folder.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

  std::filesystem::path folder_;
};

// A .npy file of version 1.0 around a header text and data.
std::string Npy(std::string header, const std::string& data) {
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += std::string("\x01\x00", 2);
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + data;
}

std::string Header(const std::string& descr, const std::string& order, const std::string& shape) {
  return absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }");
}

TEST_F(ArrayFileTest, WritesWhatNumpyWrites) {
  const float values[6] = {0.0f, 1.0f, -2.0f, 0.5f, 3.0f, -0.0f};
  ASSERT_TRUE(WriteNpy(Path("y.npy"), {2, 3}, values).ok());
  // numpy.save gives these 128 bytes before the data.
  std::string expected = "\x93NUMPY";
  expected += std::string("\x01\x00\x76\x00", 4);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.resize(127, ' ');
  expected += '\n';
  expected.append(reinterpret_cast<const char*>(values), sizeof(values));
  EXPECT_EQ(Contents(Path("y.npy")), expected);
  EXPECT_EQ(Names(), std::vector<std::string>{"y.npy"});
}

TEST_F(ArrayFileTest, NpyRoundTripsEveryRank) {
  const std::vector<float> values = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, kNan, kInf};
  for (const std::vector<uint64_t>& shape :
       std::vector<std::vector<uint64_t>>{{8}, {2, 4}, {8, 1}, {2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 8}}) {
    ASSERT_TRUE(WriteNpy(Path("y.npy"), shape, values).ok());
    EXPECT_EQ(std::filesystem::file_size(Path("y.npy")) % 64, 32u);
    const auto array = ReadArray(Path("y.npy"));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->dtype, DType::kF32);
    EXPECT_EQ(array->shape, shape);
    const auto read = Float32Values(*array);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(MakeFloat32Array(shape, *read).data, MakeFloat32Array(shape, values).data);  // NaN bits too
  }
  ASSERT_TRUE(WriteNpy(Path("y.npy"), {}, {7.0f}).ok());
  EXPECT_TRUE(ReadArray(Path("y.npy"))->shape.empty());
  ASSERT_TRUE(WriteNpy(Path("y.npy"), {0, 5}, {}).ok());
  EXPECT_EQ(ReadArray(Path("y.npy"))->shape, (std::vector<uint64_t>{0, 5}));
}

TEST_F(ArrayFileTest, ReadsEveryPlainType) {
  const std::vector<std::pair<std::string, DType>> types = {
      {"<f8", DType::kF64}, {"<f4", DType::kF32}, {"<f2", DType::kF16}, {"|b1", DType::kBool},
      {"|u1", DType::kU8},  {"|i1", DType::kI8},  {"<u2", DType::kU16}, {"<i2", DType::kI16},
      {"<u4", DType::kU32}, {"<i4", DType::kI32}, {"<u8", DType::kU64}, {"<i8", DType::kI64}};
  for (const auto& [descr, dtype] : types) {
    const std::string data(static_cast<size_t>(descr[2] - '0') * 3, '\x01');
    std::ofstream(Path("x.npy"), std::ios::binary) << Npy(Header("'" + descr + "'", "False", "(3,)"), data);
    const auto array = ReadArray(Path("x.npy"));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->dtype, dtype);
    EXPECT_EQ(array->data.size(), data.size());
  }
}

TEST_F(ArrayFileTest, ReadsVersion2AndOtherSpellings) {
  const std::string header = "{\"shape\":(2,1) ,'fortran_order':False,'descr':'<f4'}  \n";
  std::string bytes = "\x93NUMPY";
  bytes += std::string("\x02\x00", 2);
  bytes += static_cast<char>(header.size());
  bytes += std::string(3, '\0');
  EXPECT_EQ(ReadVerdict(absl::StrCat(bytes, header, std::string(8, '\0'))), "accepted");
}

TEST_F(ArrayFileTest, RefusesOtherNpyFiles) {
  const std::string data(16, '\0');
  const std::string f4 = "'<f4'";
  struct Case {
    std::string bytes;
    std::string verdict;
  };
  std::string version3 = Npy(Header(f4, "False", "(4,)"), data);
  version3[6] = '\x03';
  std::string version11 = Npy(Header(f4, "False", "(4,)"), data);
  version11[7] = '\x01';
  std::string long_header("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{", 13);
  for (const Case& c : std::vector<Case>{
           {"", "usage | x.npy: is not a .npy file"},
           {"PK\x03\x04 a zip file", "usage | x.npy: is not a .npy file"},
           {version3, "usage | x.npy: .npy version 3.0, expected 1.0 or 2.0"},
           {version11, "usage | x.npy: .npy version 1.1, expected 1.0 or 2.0"},
           {Npy(Header(f4, "False", "(4,)"), data).substr(0, 9), "usage | x.npy: ends inside the .npy header"},
           {Npy(Header(f4, "False", "(4,)"), data).substr(0, 40), "usage | x.npy: ends inside the .npy header"},
           {long_header, "usage | x.npy: the .npy header has 4294967295 bytes, the most read here is 65536"},
           {Npy(Header("'>f4'", "False", "(4,)"), data),
            "usage | x.npy: elements are '>f4' (big-endian), expected little-endian"},
           {Npy(Header("'|O'", "False", "(4,)"), data),
            "usage | x.npy: elements are '|O' (pickled Python objects), expected plain numbers"},
           {Npy(Header("'<U4'", "False", "(1,)"), data),
            "usage | x.npy: elements are '<U4', expected one of <f8 <f4 <f2 |b1 |u1 |i1 <u2 <i2 <u4 <i4 <u8 "
            "<i8"},
           {Npy(Header("[('a', '<f4')]", "False", "(4,)"), data),
            "usage | x.npy: a structured array, expected plain numbers"},
           {Npy(Header(f4, "True", "(4,)"), data), "usage | x.npy: the array is in Fortran order, expected C order"},
           {Npy(Header(f4, "0", "(4,)"), data),
            "usage | x.npy: the .npy header is malformed: expected True or False before \"0, 'shape': (4,)\""},
           {Npy(Header(f4, "False", "(4)"), data),
            "usage | x.npy: the .npy header is malformed: expected ',' in a tuple of one before \", }\\n\""},
           {Npy(Header(f4, "False", "(,)"), data),
            "usage | x.npy: the .npy header is malformed: expected a whole number before \",), }\\n\""},
           {Npy(Header(f4, "False", "[4]"), data),
            "usage | x.npy: the .npy header is malformed: expected '(' before \"[4], }\\n\""},
           {Npy(Header(f4, "False", "(-4,)"), data),
            "usage | x.npy: the .npy header is malformed: expected a whole number before \"-4,), }\\n\""},
           {Npy(Header(f4, "False", "(04,)"), data),
            "usage | x.npy: the .npy header is malformed: expected a whole number before \"04,), }\\n\""},
           {Npy(Header(f4, "False", "(4L,)"), data),
            "usage | x.npy: the .npy header is malformed: expected ',' or ')' before \"L,), }\\n\""},
           {Npy(Header(f4, "False", "(1, 1, 1, 1, 1, 1, 1, 1, 4)"), data),
            "usage | x.npy: more than 8 dimensions, the most read here"},
           {Npy(Header(f4, "False", "(99999999999999999999999,)"), data),
            "usage | x.npy: a dimension above 1099511627776"},
           {Npy(Header(f4, "False", "(1099511627776, 1099511627776)"), data),
            "usage | x.npy: shape [1099511627776, 1099511627776] of f32 takes more than 1099511627776 bytes, "
            "the most read here"},
           {Npy(Header(f4, "False", "(274877906945,)"), data),
            "usage | x.npy: shape [274877906945] of f32 takes more than 1099511627776 bytes, the most read "
            "here"},
           {Npy(Header(f4, "False", "(5,)"), data),
            "usage | x.npy: shape [5] of f32 takes 20 bytes, but 16 follow the header"},
           {Npy(Header(f4, "False", "(3,)"), data),
            "usage | x.npy: shape [3] of f32 takes 12 bytes, but more follow the header"},
           {Npy("{'descr': '<f4', 'shape': (4,)}", data),
            "usage | x.npy: the header lacks one of 'descr', 'fortran_order' and 'shape'"},
           {Npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", data),
            "usage | x.npy: key 'descr' is unknown or occurs more than once"},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}", data),
            "usage | x.npy: key 'x' is unknown or occurs more than once"},
           {Npy("{'descr': '<f4' 'fortran_order': False, 'shape': (4,)}", data),
            "usage | x.npy: the .npy header is malformed: expected ',' or '}' before \"'fortran_order':\""},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} x", data),
            "usage | x.npy: the .npy header is malformed: expected spaces and one line feed at the end before "
            "\"x\\n\""},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)", data),
            "usage | x.npy: the .npy header is malformed: expected ',' or '}' before \"\\n\""},
           {Npy("", data), "usage | x.npy: the .npy header is malformed: expected '{' before \"\\n\""},
       }) {
    EXPECT_EQ(ReadVerdict(c.bytes), c.verdict);
  }
}

TEST_F(ArrayFileTest, RefusesOtherSpecs) {
  EXPECT_EQ(VerdictOf(ReadArray("x.bin").status()),
            "usage | 'x.bin' is not an array: expected FILE.npy, FILE.safetensors:TENSOR or -");
  EXPECT_EQ(VerdictOf(ReadArray("x.safetensors").status()),
            "usage | 'x.safetensors' is not an array: expected FILE.npy, FILE.safetensors:TENSOR or -");
  EXPECT_EQ(VerdictOf(ReadArray(Path("absent.npy")).status()),
            "usage | absent.npy: cannot be opened: No such file or directory");
  std::filesystem::create_directory(Path("folder.npy"));
  EXPECT_EQ(VerdictOf(ReadArray(Path("folder.npy")).status()), "usage | folder.npy: cannot be read: Is a directory");
  EXPECT_EQ(VerdictOf(ReadArray(Path("absent.safetensors:t")).status()),
            "usage | absent.safetensors: cannot be opened: No such file or directory");
  EXPECT_EQ(VerdictOf(Float32Values(MakeArray<int32_t>(DType::kI32, {1}, {1})).status()),
            "usage | an array of i32, expected f32");
}

// A pipe has no size: the array is complete when its promised bytes have come and nothing follows.
TEST_F(ArrayFileTest, ReadsPipes) {
  ASSERT_TRUE(WriteNpy(Path("y.npy"), {2}, {1.0f, 2.0f}).ok());
  const std::string bytes = Contents(Path("y.npy"));
  for (const auto& [sent, verdict] : std::vector<std::pair<std::string, std::string>>{
           {bytes, "accepted"},
           {bytes.substr(0, bytes.size() - 1),
            "usage | standard input: shape [2] of f32 takes 8 bytes, but 7 follow the header"},
           {bytes + "x", "usage | standard input: shape [2] of f32 takes 8 bytes, but more follow the header"}}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
    ::close(ends[1]);
    const int saved = ::dup(STDIN_FILENO);
    ASSERT_GE(::dup2(ends[0], STDIN_FILENO), 0);
    ::close(ends[0]);
    EXPECT_EQ(VerdictOf(ReadArray("-").status()), verdict);
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
  }
}

TEST_F(ArrayFileTest, WritesToStandardOutput) {
  testing::internal::CaptureStdout();
  const absl::Status status = WriteNpy("-", {2}, {1.0f, 2.0f});
  const std::string bytes = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(WriteNpy(Path("y.npy"), {2}, {1.0f, 2.0f}).ok());
  EXPECT_EQ(bytes, Contents(Path("y.npy")));
}

TEST_F(ArrayFileTest, ReplacesAFileAndNothingElse) {
  std::ofstream(Path("y.npy")) << "old";
  ASSERT_TRUE(WriteNpy(Path("y.npy"), {1}, {1.0f}).ok());
  EXPECT_TRUE(ReadArray(Path("y.npy")).ok());

  std::filesystem::create_symlink(Path("y.npy"), Path("link.npy"));
  EXPECT_EQ(VerdictOf(WriteNpy(Path("link.npy"), {1}, {1.0f})), "usage | link.npy: exists and is not a regular file");
  ASSERT_EQ(::mkfifo(Path("fifo.npy").c_str(), 0600), 0);
  EXPECT_EQ(VerdictOf(WriteNpy(Path("fifo.npy"), {1}, {1.0f})), "usage | fifo.npy: exists and is not a regular file");
  EXPECT_EQ(VerdictOf(WriteNpy(Path("absent/y.npy"), {1}, {1.0f})),
            "usage | absent/y.npy: cannot be written: No such file or directory");
  EXPECT_EQ(VerdictOf(WriteNpy(Path("y.npy"), {2}, {1.0f})), "bug | y.npy: 1 values do not fill the shape [2]");
  EXPECT_EQ(Names().size(), 3u);  // no partial file is left
}

TEST_F(ArrayFileTest, SafetensorsRoundTrip) {
  const std::vector<NamedArray> arrays = {
      {"bytes \"\u00e9\"", MakeArray<uint8_t>(DType::kU8, {3}, {1, 2, 3})},
      {"experts", MakeArray<int32_t>(DType::kI32, {1, 2}, {5, -6})},
      {"weights", MakeFloat32Array({1, 2}, {0.25f, 0.75f})},
      {"ids", MakeArray<int64_t>(DType::kI64, {1}, {-1})},
  };
  ASSERT_TRUE(WriteSafetensors(Path("r.safetensors"), arrays).ok());
  for (const NamedArray& written : arrays) {
    const auto read = ReadArray(absl::StrCat(Path("r.safetensors"), ":", written.name));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->dtype, written.array.dtype);
    EXPECT_EQ(read->shape, written.array.shape);
    EXPECT_EQ(read->data, written.array.data);
  }
  const auto file = SafetensorsFile::Open(Path("r.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const TensorEntry& entry : file->entries()) EXPECT_EQ(entry.begin % *BytesOf(entry.dtype, 1), 0u) << entry.name;
  EXPECT_EQ(VerdictOf(ReadArray(Path("r.safetensors:idz")).status()),
            "usage | r.safetensors: tensor 'idz': not in the file, did you mean 'ids'?");
  ASSERT_TRUE(WriteSafetensors(Path("none.safetensors"), {}).ok());
  EXPECT_EQ(std::filesystem::file_size(Path("none.safetensors")), 16u);
}

TEST_F(ArrayFileTest, DoesNotWriteSafetensorsThatItWouldRefuse) {
  const Array one = MakeFloat32Array({1}, {1.0f});
  const auto verdict = [&](const std::vector<NamedArray>& arrays) {
    return VerdictOf(WriteSafetensors(Path("r.safetensors"), arrays));
  };
  EXPECT_EQ(verdict({{"a", one}, {"a", one}}), "usage | r.safetensors: tensor 'a': occurs more than once");
  EXPECT_EQ(verdict({{"", one}}), "usage | r.safetensors: tensor '': the name is empty (near byte 11)");
  EXPECT_EQ(verdict({{"__metadata__", one}}),
            "usage | r.safetensors: __metadata__: 'shape' is an array, expected a string (near byte 48)");
  EXPECT_EQ(verdict({{"\xFF", one}}), "usage | r.safetensors: tensor '\\377': the name is not UTF-8");
  EXPECT_EQ(verdict({{"a", MakeFloat32Array({2}, {1.0f})}}),
            "usage | r.safetensors: tensor 'a': data_offsets [0, 4] span 4 bytes, expected 8 for shape [2] "
            "of F32 (near byte 61)");
  EXPECT_EQ(verdict({{"a", Array{}}}),
            "usage | r.safetensors: tensor 'a': dtype '' is not one of the format (near byte 24)");
  EXPECT_TRUE(Names().empty());
}

std::string Compared(const Array& array, const Array& reference) {
  const auto comparison = CompareArrays(array, reference);
  if (comparison.ok()) return ComparisonText(*comparison);
  return absl::StrCat(RowOf(*ReasonOf(comparison.status())).slug, " | ", comparison.status().message());
}

TEST(CompareTest, EqualArrays) {
  const Array a = MakeFloat32Array({2, 2}, {1.0f, -2.0f, 0.0f, 4.0f});
  EXPECT_EQ(Compared(a, a), "max|Δ|/max|ref| = 0, 4 elements, 0 differ");
  const Array empty = MakeFloat32Array({0, 2}, {});
  EXPECT_EQ(Compared(empty, empty), "max|Δ|/max|ref| = 0, 0 elements, 0 differ");
}

TEST(CompareTest, NamesTheWorstElement) {
  const Array a = MakeFloat32Array({2, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, -8.0f});
  const Array b = MakeFloat32Array({2, 3}, {1.0f, 2.125f, 3.0f, 4.0f, 5.5f, -7.5f});
  const auto comparison = CompareArrays(a, b);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->ratio, 0.5 / 7.5);
  EXPECT_EQ(comparison->differing, 3u);
  EXPECT_EQ(comparison->worst_index, (std::vector<uint64_t>{1, 1}));  // the first of two equals
  EXPECT_EQ(ComparisonText(*comparison),
            "max|Δ|/max|ref| = 0.0667 (worst at [1, 1]: 5 against 5.5), 6 elements, 3 differ");
  // The reference is the second one.
  EXPECT_EQ(CompareArrays(b, a)->ratio, 0.5 / 8.0);
}

TEST(CompareTest, AScalarHasAnEmptyIndex) {
  EXPECT_EQ(Compared(MakeFloat32Array({}, {1.0f}), MakeFloat32Array({}, {2.0f})),
            "max|Δ|/max|ref| = 0.5 (worst at []: 1 against 2), 1 elements, 1 differ");
}

TEST(CompareTest, ZeroReference) {
  const Array zeros = MakeFloat32Array({2}, {0.0f, 0.0f});
  EXPECT_EQ(Compared(zeros, zeros), "max|Δ|/max|ref| = 0, 2 elements, 0 differ");
  EXPECT_EQ(Compared(MakeFloat32Array({2}, {0.0f, 1e-30f}), zeros),
            "max|Δ|/max|ref| = inf (worst at [1]: 1e-30 against 0), 2 elements, 1 differ");
  // -0 has other bits, but the distance is 0.
  EXPECT_EQ(Compared(MakeFloat32Array({2}, {0.0f, -0.0f}), zeros), "max|Δ|/max|ref| = 0, 2 elements, 1 differ");
}

TEST(CompareTest, ANanIsOutsideEveryTolerance) {
  const Array b = MakeFloat32Array({3}, {1.0f, 2.0f, 3.0f});
  EXPECT_EQ(Compared(MakeFloat32Array({3}, {9.0f, kNan, kInf}), b),
            "max|Δ|/max|ref| = inf (worst at [1]: nan against 2), 3 elements, 3 differ\n"
            "not finite: 1 with NaN (always a difference), 1 with an infinity");
  const Array nan = MakeFloat32Array({3}, {1.0f, 2.0f, kNan});
  EXPECT_EQ(Compared(b, nan),
            "max|Δ|/max|ref| = inf (worst at [2]: 3 against nan), 3 elements, 1 differ\n"
            "not finite: 1 with NaN (always a difference), 0 with an infinity");
  // The same bits on both sides are no excuse.
  EXPECT_EQ(Compared(nan, nan),
            "max|Δ|/max|ref| = inf (worst at [2]: nan against nan), 3 elements, 1 differ\n"
            "not finite: 1 with NaN (always a difference), 0 with an infinity");
}

TEST(CompareTest, InfinitiesAreEqualOnlyToThemselves) {
  const Array inf = MakeFloat32Array({2}, {1.0f, kInf});
  EXPECT_EQ(Compared(inf, inf),
            "max|Δ|/max|ref| = 0, 2 elements, 0 differ\n"
            "not finite: 0 with NaN (always a difference), 1 with an infinity");
  EXPECT_EQ(Compared(inf, MakeFloat32Array({2}, {2.0f, -kInf})),
            "max|Δ|/max|ref| = inf (worst at [1]: inf against -inf), 2 elements, 2 differ\n"
            "not finite: 0 with NaN (always a difference), 1 with an infinity");
}

TEST(CompareTest, IntegersAreExact) {
  constexpr int64_t kBig = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(
      Compared(MakeArray<int64_t>(DType::kI64, {2}, {1, kBig}), MakeArray<int64_t>(DType::kI64, {2}, {1, kBig - 1})),
      "max|Δ|/max|ref| = 1.08e-19 (worst at [1]: 9223372036854775807 against 9223372036854775806), 2 "
      "elements, "
      "1 differ");
  EXPECT_EQ(Compared(MakeArray<int64_t>(DType::kI64, {1}, {kBig}), MakeArray<int64_t>(DType::kI64, {1}, {-kBig - 1})),
            "max|Δ|/max|ref| = 2 (worst at [0]: 9223372036854775807 against -9223372036854775808), 1 elements, 1 "
            "differ");
  EXPECT_EQ(Compared(MakeArray<int32_t>(DType::kI32, {1}, {-3}), MakeArray<int32_t>(DType::kI32, {1}, {4})),
            "max|Δ|/max|ref| = 1.75 (worst at [0]: -3 against 4), 1 elements, 1 differ");
  EXPECT_EQ(Compared(MakeArray<int8_t>(DType::kI8, {1}, {-128}), MakeArray<int8_t>(DType::kI8, {1}, {127})),
            "max|Δ|/max|ref| = 2.01 (worst at [0]: -128 against 127), 1 elements, 1 differ");
  EXPECT_EQ(Compared(MakeArray<uint8_t>(DType::kU8, {1}, {255}), MakeArray<uint8_t>(DType::kU8, {1}, {0})),
            "max|Δ|/max|ref| = inf (worst at [0]: 255 against 0), 1 elements, 1 differ");
}

TEST(CompareTest, NarrowAndWideFloatsCompareAsValues) {
  EXPECT_EQ(
      Compared(MakeArray<uint16_t>(DType::kBf16, {1}, {0x3F80}), MakeArray<uint16_t>(DType::kBf16, {1}, {0x4000})),
      "max|Δ|/max|ref| = 0.5 (worst at [0]: 1 against 2), 1 elements, 1 differ");
  EXPECT_EQ(Compared(MakeArray<uint16_t>(DType::kF16, {1}, {0x3C00}), MakeArray<uint16_t>(DType::kF16, {1}, {0x4000})),
            "max|Δ|/max|ref| = 0.5 (worst at [0]: 1 against 2), 1 elements, 1 differ");
  EXPECT_EQ(Compared(MakeArray<double>(DType::kF64, {1}, {0.1}), MakeArray<double>(DType::kF64, {1}, {0.2})),
            "max|Δ|/max|ref| = 0.5 (worst at [0]: 0.10000000000000001 against 0.20000000000000001), 1 elements, 1 "
            "differ");
}

TEST(CompareTest, RefusesArraysThatDoNotCorrespond) {
  const Array a = MakeFloat32Array({2, 1}, {1.0f, 2.0f});
  EXPECT_EQ(Compared(a, MakeFloat32Array({1, 2}, {1.0f, 2.0f})),
            "differs | shape [2, 1] against [1, 2], expected the same");
  EXPECT_EQ(Compared(a, MakeArray<int32_t>(DType::kI32, {2, 1}, {1, 2})),
            "differs | dtype f32 against i32, expected the same");
  const Array f8 = MakeArray<uint8_t>(DType::kF8E4M3, {1}, {0});
  EXPECT_EQ(Compared(f8, f8), "not-built | arrays of f8_e4m3 cannot be compared yet");
  EXPECT_EQ(Compared(a, MakeFloat32Array({2, 1}, {1.0f})),
            "bug | arrays of 8 and 4 bytes do not have the size of their shape [2, 1]");
}

}  // namespace
}  // namespace meshseal::tools
