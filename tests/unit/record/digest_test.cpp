#include "cluster/record/digest.hpp"

#include <gtest/gtest.h>

#include "cluster/record/record.hpp"

namespace zaris {
namespace {

Digest of(std::string_view key, std::string_view value, std::uint32_t version) {
  const std::string bytes = make_record({key, value, 0, 0x01020304, false}, {Revision{7}, version, 1, Deleted::no, Generation{9}, {}});
  return record_digest(parse_record(bytes)->entry, version);
}

TEST(Digest, DoesNotDependOnOrderAndComesBackToNothing) {
  Digest a, b;
  a += of("x", "1", 1);
  a += of("y", "2", 1);
  b += of("y", "2", 1);
  b += of("x", "1", 1);
  EXPECT_EQ(a, b);
  a -= of("x", "1", 1);
  a -= of("y", "2", 1);
  EXPECT_EQ(a, Digest{});
}

TEST(Digest, SeesKeyValueAndVersion) {
  EXPECT_NE(of("x", "1", 1), of("x", "2", 1));
  EXPECT_NE(of("x", "1", 1), of("y", "1", 1));
  EXPECT_NE(of("x", "1", 1), of("x", "1", 2));
}

TEST(Digest, CarriesOverTheMiddleAndWrapsAtTheTop) {
  Digest d{1, ~0ull};
  d += Digest{0, 1};
  EXPECT_EQ(d, (Digest{2, 0}));
  d -= Digest{0, 1};
  EXPECT_EQ(d, (Digest{1, ~0ull}));
  Digest top{~0ull, ~0ull};
  top += Digest{0, 1};
  EXPECT_EQ(top, Digest{});
}

TEST(Digest, BytesAndTextAreMostSignificantFirst) {
  const Digest d{0x0102030405060708, 0x090a0b0c0d0e0f10};
  EXPECT_EQ(d.hex(), "0102030405060708090a0b0c0d0e0f10");
  char bytes[16];
  d.to_bytes(bytes);
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[15], 0x10);
  EXPECT_EQ(Digest::from_bytes(bytes), d);
}

// Recomputed in another language by tests/system/formats.
TEST(Digest, TheWorkedExampleOfTheFormatPage) { EXPECT_EQ(of("user:1", "hello", 3).hex(), "47ea85e6e94331df26708ad42ceb3c24"); }

}  // namespace
}  // namespace zaris
