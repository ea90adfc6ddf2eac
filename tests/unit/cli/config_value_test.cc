// SPDX-License-Identifier: Apache-2.0
// Goal: a value is read from its own table alone, as it was quoted. Method: texts written by hand.
#include "clients/cli/config_value.h"

#include <gtest/gtest.h>

namespace kvsidecar {
namespace {

TEST(ConfigValue, IsReadFromItsTableAlone) {
  const std::string text = "[store]\nsocket = \"/no\"\n[daemon]\n  socket = \"/a b\" # here\n";
  EXPECT_EQ(config_value(text, "daemon", "socket"), "/a b");
  EXPECT_EQ(config_value(text, "daemon", "runtime_dir"), "");
  EXPECT_EQ(config_value("[daemon]\n#socket = \"/no\"\n", "daemon", "socket"), "");
  EXPECT_EQ(config_value("", "daemon", "socket"), "");
}

TEST(ConfigValue, QuotesAndBackslashesOfAPathAreTakenBack) {
  EXPECT_EQ(config_value("[a]\nk = \"/x\\\"y\\\\z\"\n", "a", "k"), "/x\"y\\z");
  EXPECT_EQ(config_value("[a]\nk='/x\\y'\n", "a", "k"), "/x\\y");
}

TEST(ConfigValue, WhatIsNoQuotedTextIsNone) {
  EXPECT_EQ(config_value("[a]\nk = 7\n", "a", "k"), "");
  EXPECT_EQ(config_value("[a]\nk = \"/open\n", "a", "k"), "");
  EXPECT_EQ(config_value("[a]\nk =\n", "a", "k"), "");
}

}  // namespace
}  // namespace kvsidecar
