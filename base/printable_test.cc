#include "base/printable.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

TEST(PrintableTest, LeavesTextAlone) {
  for (const char* text : {"", "layers.0.fc1.weight", "Größe \xE6\x9D\x83\xE9\x87\x8D \xF0\x9F\x99\x82", "a\\b"})
    EXPECT_EQ(printable(text), text);
}

TEST(PrintableTest, SpellsOutWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("a\nb\tc\rd\x7f"), "a\\x0ab\\x09c\\x0dd\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");  // CSI as one character
  EXPECT_EQ(printable("\x9B"
                      "31m"),
            "\\x9b31m");  // the same as a byte
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u202e"
            "b");  // from right to left
  EXPECT_EQ(printable_lines("a\n\tb\x1b"), "a\n\tb\\x1b");
}

TEST(PrintableTest, SpellsOutBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xC3"), "\\xc3");
  EXPECT_EQ(printable("\xC0\x9B"), "\\xc0\\x9b");  // an overlong form
  EXPECT_EQ(printable("\xE0\x80\x9B"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // half of a pair
}

}  // namespace
}  // namespace sparsmith
