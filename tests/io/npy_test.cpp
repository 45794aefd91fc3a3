#include "bespoke/io/npy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "npy_file.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

class Npy : public ::testing::Test {
 protected:
  // A file as the format's description has it, the header's length in 2 or 4 bytes.
  static std::string file(const std::string& header, const std::string& data, int version = 1) {
    std::string bytes = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
      bytes += static_cast<char>(header.size() >> (8 * i));
    }
    return bytes + header + data;
  }

  torch::Tensor read_bytes(const std::string& bytes) {
    write_file_atomically(path_, bytes);
    return read_npy(path_);
  }

  std::string refusal(const std::string& bytes) {
    return testing::refusal([&] { read_bytes(bytes); });
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.npy";
};

std::string entries(const std::string& descr, const std::string& shape,
                    const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

std::string counting(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST_F(Npy, ReadsHandMadeFilesOfEveryVersion) {
  const std::string two_floats("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);  // 1.5, -2
  for (const int version : {1, 2, 3}) {
    const auto x = read_bytes(file(entries("<f4", "(2,)") + "   \n", two_floats, version));
    EXPECT_TRUE(torch::equal(x, torch::tensor({1.5f, -2.f}))) << version;
  }
}

TEST_F(Npy, ReadsAnyWayOfWritingTheHeader) {
  const auto expected = torch::tensor({{0, 1, 2}, {3, 4, 5}}).to(torch::kByte);
  for (const char* header :
       {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }",
        "{'shape':(2,3),'descr':'<u1','fortran_order':False}\n",
        "{ \"shape\" : ( 2L, 3L, ) , \"fortran_order\" : False , \"descr\" : \">u1\" }"}) {
    const auto x = read_bytes(file(header, counting(6)));
    EXPECT_TRUE(torch::equal(x, expected)) << header;
  }
}

TEST_F(Npy, ReadsFortranOrder) {
  const auto x = read_bytes(file(entries("|i1", "(2, 3)", "True"), counting(6)));
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_TRUE(torch::equal(x, torch::tensor({{0, 2, 4}, {1, 3, 5}}).to(torch::kChar)));
  const auto cube = read_bytes(file(entries("|u1", "(2, 3, 4)", "True"), counting(24)));
  EXPECT_EQ(cube[1][2][3].item<int>(), 1 + 2 * 2 + 3 * 6);
  EXPECT_EQ(cube[1][0][2].item<int>(), 1 + 2 * 6);
}

TEST_F(Npy, ReadsScalarsAndEmptyArrays) {
  EXPECT_EQ(read_bytes(file(entries("<i2", "()"), std::string("\x02\x01", 2))).item<int>(), 258);
  EXPECT_EQ(read_bytes(file(entries("<f8", "(0, 5)"), "")).sizes().vec(),
            (std::vector<int64_t>{0, 5}));
}

TEST_F(Npy, ReadsAnyByteButZeroAsTrue) {
  const auto x = read_bytes(file(entries("|b1", "(3,)"), counting(3)));
  EXPECT_TRUE(torch::equal(x, torch::tensor({0, 1, 1}).to(torch::kBool)));
}

TEST_F(Npy, ReadsEveryTypeAndShape) {
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kLong, torch::kInt,
                          torch::kShort, torch::kChar, torch::kByte, torch::kBool}) {
    const auto x = (torch::arange(24).reshape({2, 3, 4}) - 2).to(type);
    for (const auto& y : {x, x.transpose(0, 2), x[0][0], x[1][2][3], x.narrow(1, 0, 0)}) {
      testing::write_npy(path_, y);
      const auto copy = read_npy(path_);
      EXPECT_EQ(copy.scalar_type(), type);
      EXPECT_TRUE(torch::equal(copy, y)) << torch::toString(type);
    }
  }
}

TEST_F(Npy, RefusesBrokenHeaders) {
  for (const std::string& header :
       {std::string(),
        std::string("("),
        std::string("{}"),
        entries("<f4", "(2,)") + "x",
        entries("<f4", "(2"),
        entries("<f4", "2"),
        entries("<f4", "(-2,)"),
        entries("<f4", "(2.0,)"),
        entries("<f4", "(,)"),
        entries("<f4", "(2 2)"),
        entries("<f4", "[2]"),
        entries("<f4", "(2,)", "0"),
        entries("<f4", "(2,)", "Fals"),
        entries("<f4", "(99999999999999999999,)"),
        std::string("{'descr': '<f4', 'fortran_order': False}"),
        std::string("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}"),
        std::string("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
        std::string("{'descr' '<f4', 'fortran_order': False, 'shape': (2,)}"),
        std::string("{'descr': '<f4' 'fortran_order': False 'shape': (2,)}"),
        std::string("{'descr")}) {
    const std::string message = refusal(file(header, std::string(8, '\0')));
    EXPECT_NE(message.find("broken .npy header"), std::string::npos) << header << ": " << message;
  }
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1, ";
  EXPECT_NE(refusal(file(entries("|u1", many + ")"), "x")), "");
}

TEST_F(Npy, RefusesWhatDoesNotFitTheFile) {
  const std::string whole = file(entries("<f4", "(2,)"), std::string(8, '\0'));
  EXPECT_EQ(refusal(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  }
  EXPECT_NE(refusal(whole + "x"), "");
  for (const char* shape :
       {"(3,)", "(1,)", "(0,)", "(4611686018427387904, 4)", "(4611686018427387904, 4, 2)",
        "(9223372036854775807,)", "(4294967296, 4294967296)", "(3037000500, 3037000500, 4, 0)",
        "(2305843009213693954,)", "()"}) {
    EXPECT_NE(refusal(file(entries("<f4", shape), std::string(8, '\0'))), "") << shape;
  }
  EXPECT_NE(refusal(file(entries("<f4", "(9223372036854775807, 9223372036854775807, 0)"), "")), "");
}

TEST_F(Npy, SaysWhatItFoundAndWhatToDo) {
  const auto says = [&](const std::string& bytes, const std::string& words) {
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  says("PK\x03\x04 and so on", "is a .npz archive; unpack it with unzip");
  says("hello, this is text", "not a .npy file");
  says(file(entries("<f4", "(2,)"), "", 4), ".npy version 4 is unknown");
  says(file(entries(">f4", "(2,)"), std::string(8, '\0')),
       "arrays of type '>f4' are not supported");
  says(file(entries("<u2", "(2,)"), std::string(4, '\0')), "'<u2'");
  says(file(entries("|O", "(2,)"), ""), "'|O'");
  says(file(entries("", "(2,)"), ""), "''");
  says(file(entries("<f4", "(3,)"), std::string(8, '\0')),
       "8 bytes of data are not an array of shape [3]");
}

}  // namespace
}  // namespace bespoke
