// SPDX-License-Identifier: Apache-2.0
// Goal: namespaces of one model can be told apart in the list. Method: answers written by hand.
#include "clients/cli/namespaces_text.h"

#include <gtest/gtest.h>

namespace kvsidecar {
namespace {

std::string row(const std::string& id, const std::string& more) {
  return R"({"namespace": ")" + id +
         R"(", "generation": 1, "model": "m", "pool": "kv", "dtype": "bf16", "parts": 1, )" + more +
         "}";
}

std::string table(const std::string& rows) {
  auto text = namespaces_text(R"({"namespaces": [)" + rows + "]}");
  EXPECT_TRUE(text.ok());
  return text.ok() ? text.take() : "";
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(NamespacesText, TheRevisionIsShown) {
  const std::string text = table(row("aa", R"("revision": "r7")"));
  EXPECT_TRUE(has(text, "r7")) << text;
  EXPECT_FALSE(has(text, "isn't told")) << text;
}

TEST(NamespacesText, EveryFieldInWhichTwoOfAModelDifferIsNamed) {
  const std::string text =
      table(row("aa", R"("revision": "r", "layout": "NHD", "tp_size": 2)") + "," +
            row("bb", R"("revision": "r", "layout": "NHD", "tp_size": 4)"));
  EXPECT_TRUE(has(text, "tp_size=2\n")) << text;
  EXPECT_TRUE(has(text, "tp_size=4\n")) << text;
  EXPECT_FALSE(has(text, "layout")) << text;
}

TEST(NamespacesText, WhereTheAnswerTellsNoDifferenceThatIsSaid) {
  const std::string text = table(row("aa", R"("revision": "r", "pages_host": 3)") + "," +
                                 row("bb", R"("revision": "r", "pages_host": 9)"));
  const size_t first = text.find("a field that isn't told");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_TRUE(has(text.substr(first + 1), "a field that isn't told")) << text;
}

TEST(NamespacesText, WhatIsNoListIsAnErrorThatShowsIt) {
  for (const char* text : {"", "[]", "{}", "hello"}) {
    const auto list = namespaces_text(text);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_TRUE(has(list.status().text(), text));
  }
}

}  // namespace
}  // namespace kvsidecar
