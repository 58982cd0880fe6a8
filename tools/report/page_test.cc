#include "tools/report/page.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace sparsmith::tools {
namespace {

constexpr const char* kHostile = "</script><script>alert('x')</script>\"<!--&";

// What the page's script reads.
nlohmann::json figures_of(const std::string& html) {
  const std::string begin = "<script id=\"figures\" type=\"application/json\">";
  const std::size_t at = html.find(begin);
  EXPECT_NE(at, std::string::npos);
  const std::size_t end = html.find("</script>", at);
  return nlohmann::json::parse(html.substr(at + begin.size(), end - at - begin.size()));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Page page_called(const std::string& name) {
  Figure figure{.title = name, .caption = name, .x = {.label = name}, .y = {.label = name}};
  figure.series.push_back({.name = name, .x = {1}, .y = {2}, .labels = {name}});
  figure.rules.push_back({.text = name, .y = 1});
  figure.notes.push_back({1, 2, name});
  Table table{.title = name, .columns = {name}, .rows = {{name}}};
  Section section{.title = name, .text = name};
  section.card = Card{.tag = name, .facts = {{name, name, name}}, .lines = {name}};
  section.blocks.push_back({.text = name, .figures = {figure}, .table = table});
  return {.title = name, .text = name, .sections = {section}};
}

TEST(PageTest, NoTextBecomesMarkup) {
  const std::string plain = html_of(page_called("name"));
  const std::string hostile = html_of(page_called(kHostile));
  for (const char* part : {"<script", "</script>", "<!--", "<p>", "<h2>"})
    EXPECT_EQ(count_of(hostile, part), count_of(plain, part)) << part;
  EXPECT_EQ(count_of(hostile, "alert('x')"), count_of(figures_of(hostile).dump(), "alert('x')"));
  // And the figures say what was said.
  const nlohmann::json figure = figures_of(hostile).at(0);
  for (const char* key : {"title"}) EXPECT_EQ(figure.at(key), kHostile);
  EXPECT_EQ(figure.at("series").at(0).at("labels").at(0), kHostile);
  EXPECT_EQ(figure.at("rules").at(0).at("text"), kHostile);
  EXPECT_EQ(figure.at("notes").at(0).at("text"), kHostile);
}

TEST(PageTest, EscapesWhatHtmlReads) {
  EXPECT_EQ(escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
}

TEST(PageTest, NamesBreakBehindTheirPunctuationAlone) {
  const std::string html = html_of({.title = "layers.12.q_proj.weight at 0.95 and a/b. End."});
  EXPECT_NE(html.find("<h1>layers.<wbr>12.<wbr>q_<wbr>proj.<wbr>weight at 0.95 and a/<wbr>b. End.</h1>"),
            std::string::npos);
  EXPECT_NE(html.find("<title>layers.12.q_proj.weight"), std::string::npos);
}

TEST(PageTest, ATablesCaseAndItsFigureLinkToEachOther) {
  Figure figure{.title = "a"};
  figure.series.push_back({.x = {1}, .y = {2}});
  const Table table{.columns = {"case"}, .rows = {{"a"}, {"b"}, {"a"}}};
  const std::string html =
      html_of({.title = "t", .sections = {{.title = "s", .blocks = {{.figures = {figure}, .table = table}}}}});
  EXPECT_EQ(count_of(html, "<a href=\"#figure-0\">a</a>"), 2U);
  EXPECT_EQ(count_of(html, "id=\"row-0\""), 1U);
  EXPECT_EQ(count_of(html, "<a href=\"#row-0\" title=\"to the table\">a</a>"), 1U);
  EXPECT_EQ(count_of(html, "href="), 3U);
  const Section other{.title = "o", .blocks = {{.table = table}}};
  const Section with_figure{.title = "s", .blocks = {{.figures = {figure}}}};
  EXPECT_EQ(count_of(html_of({.title = "t", .sections = {with_figure, other}}), "href="), 0U) << "of another part";
}

TEST(PageTest, FoldedRowsAreBehindTheirSum) {
  const Table table{.columns = {"a", ">b"},
                    .rows = {{"sum", "3"}, {"one", "1"}},
                    .folded = {{{"x", "1"}, {"y", "2"}}, {}},
                    .bars = {{{0, 1}, {1, 0.5}}}};
  const std::string html = html_of({.title = "t", .sections = {{.title = "s", .blocks = {{.table = table}}}}});
  const std::size_t sum = html.find("<td>sum</td>");
  const std::size_t folded = html.find("<tbody class=\"folded\">\n<tr><td>x</td><td class=\"number\">1</td></tr>");
  EXPECT_LT(sum, folded);
  EXPECT_LT(folded, html.find("<td>one</td>"));
  EXPECT_NE(html.find("style=\"width:50.0%\"></span></span>3</td>"), std::string::npos);
}

TEST(PageTest, SectionsBelowAreAsHighAsAPartWhereThereIsOne) {
  const Section part{.title = "part"};
  const Section below{.title = "below", .below = true};
  EXPECT_NE(html_of({.title = "t", .sections = {part, below}}).find("<h2>below</h2>"), std::string::npos);
  EXPECT_NE(html_of({.title = "t", .sections = {part, below, part}}).find("<h3>below</h3>"), std::string::npos);
}

TEST(PageTest, BytesThatAreNoUtf8AreReplaced) {
  const std::string html = html_of(page_called("a\xff\xc3(b"));
  EXPECT_EQ(html.find('\xff'), std::string::npos);
  EXPECT_NE(html.find("a\xEF\xBF\xBD"), std::string::npos);
  EXPECT_EQ(figures_of(html).at(0).at("title").get<std::string>().front(), 'a');
}

TEST(PageTest, ValuesThatAreNotFiniteAreLeftOut) {
  Figure figure;
  figure.series.push_back(
      {.x = {1, 2, 3}, .y = {0.1234567890123, std::numeric_limits<double>::infinity(), std::nan("")}});
  const std::string html = html_of({.title = "t", .sections = {{.title = "s", .blocks = {{.figures = {figure}}}}}});
  const nlohmann::json y = figures_of(html).at(0).at("series").at(0).at("y");
  EXPECT_EQ(y, nlohmann::json::parse("[0.123457, null, null]"));
}

TEST(PageTest, GridsAreShadesOfTwoDigits) {
  Figure figure;
  figure.series.push_back({.kind = Series::Kind::kHeat, .y = {0, 0.5, 1, 7, -1, std::nan("")}, .columns = 3});
  const std::string html = html_of({.title = "t", .sections = {{.title = "s", .blocks = {{.figures = {figure}}}}}});
  EXPECT_EQ(figures_of(html).at(0).at("series").at(0).at("heat"), "0080ffff0000");
}

TEST(PageTest, AsksNothingOfANetwork) {
  const std::string html = html_of(page_called("name"));
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  for (const char* part : {" src=", "<link", "<iframe", "@import", "url("}) EXPECT_EQ(count_of(html, part), 0U) << part;
}

}  // namespace
}  // namespace sparsmith::tools
