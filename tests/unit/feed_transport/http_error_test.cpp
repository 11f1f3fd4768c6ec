// What a gateway says of itself, and what somebody else's server says.
#include "feed/transport/http_error.hpp"

#include <gtest/gtest.h>

namespace zaris::feed {
namespace {

TEST(HttpError, ABodyIsTakenAtItsWordOnlyWhereItHasOne) {
  struct Case {
    std::string body, code, what, hint;
  };
  const std::string otherwise = "a.example answered 503";
  const std::vector<Case> table = {
      {R"({"error":{"code":"shutting_down","text":"draining","hint":"try another"}})", "shutting_down", otherwise + ": draining", "try another"},
      {R"({"error":{"text":"only that"}})", "feed_refused", otherwise + ": only that", ""},
      {R"({"error":{"code":"Not A Code"}})", "feed_refused", otherwise, ""},
      {R"({"error":{"code":")" + std::string(49, 'a') + R"("}})", "feed_refused", otherwise, ""},
      {R"({"error":{"code":7,"text":[1],"hint":{"a":null}}})", "feed_refused", otherwise, ""},
      {R"({"error":"no object"})", "feed_refused", otherwise, ""},
      {R"([{"error":{}}])", "feed_refused", otherwise, ""},
      {"{\"error\":{\"text\":\"a\\nb\\u001b[31m\"}}", "feed_refused", otherwise + ": a\\x0ab\\x1b[31m", ""},
      {"<html>", "feed_refused", otherwise, ""},
      {"", "feed_refused", otherwise, ""},
  };
  for (const Case& c : table) {
    const Error error = error_in(c.body, {"feed_refused", otherwise, {}});
    EXPECT_EQ(error.code, c.code) << c.body;
    EXPECT_EQ(error.what, c.what) << c.body;
    EXPECT_EQ(error.hint, c.hint) << c.body;
  }
  const Error cut = error_in(R"({"error":{"text":")" + std::string(100'000, 'x') + R"("}})", {"feed_refused", otherwise, {}});
  EXPECT_LT(cut.what.size(), 700u);
}

}  // namespace
}  // namespace zaris::feed
