#include "tools/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/split.h"

namespace sparsmith::tools {
namespace {

struct OptionText {
  std::vector<std::string> flags;    // "-o", "--output"; empty: an argument without a name
  std::string value;                 // "FILE", "N"; empty: a flag takes none
  std::vector<std::string> choices;  // the only values, where there are such
  std::string description;
  std::string initial;  // the default
  bool required = false;
  bool is_path = false;

  // "-o, --output PATH"
  std::string synopsis() const {
    return fmt::format("{}{}{}", fmt::join(flags, ", "), flags.empty() || value.empty() ? "" : " ", value);
  }
};

struct CommandText {
  std::string name;  // "cache ls"; the program itself: ""
  std::string description;
  std::vector<OptionText> options;
  std::vector<CommandText> verbs;
};

// The names between the braces of "TEXT:{a,b}".
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<std::string> choices;
  for (const std::string_view choice : split(std::string_view(type).substr(begin + 1, end - begin - 1), ","))
    choices.emplace_back(choice);
  return choices;
}

// Options that name files: an option has no type for that.
bool names_a_path(const std::string& name) {
  static const std::vector<std::string> kPaths = {
      "file",    "files",           "suite",   "--output",           "--html",  "--cache",    "--record",
      "--model", "--bench",         "--cases", "--google-benchmark", "--junit", "--suspects", "--unsure",
      "--db",    "--source-folder", "folder"};
  return std::ranges::find(kPaths, name) != kPaths.end();
}

OptionText text_of(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.flags.push_back("--" + name);
  const std::string type = option.get_type_name();
  text.choices = choices_of(type);
  text.is_path = names_a_path(option.get_single_name().starts_with("-") || option.get_positional()
                                  ? option.get_single_name()
                                  : "--" + option.get_single_name());
  if (option.get_items_expected_max() > 0) {
    if (option.get_positional())
      text.value = option.get_single_name();
    else if (!text.choices.empty())
      text.value = text.choices.size() <= 4 ? fmt::format("{}", fmt::join(text.choices, "|")) : "NAME";
    else
      text.value = text.is_path ? "PATH" : type.substr(0, type.find_first_of(": "));
    if (text.value == "UINT" || text.value == "INT") text.value = "N";
    std::ranges::transform(text.value, text.value.begin(), [&](unsigned char c) {
      return static_cast<char>(text.choices.empty() ? std::toupper(c) : c);
    });
  }
  text.description = option.get_description();
  text.initial = option.get_default_str();
  text.required = option.get_required();
  return text;
}

CommandText text_of(const CLI::App& app, const std::string& path) {
  CommandText text{.name = path, .description = app.get_description(), .options = {}, .verbs = {}};
  for (const CLI::Option* const option : app.get_options())
    if (!option->get_group().empty()) text.options.push_back(text_of(*option));
  for (const CLI::App* const verb :
       app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    text.verbs.push_back(text_of(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name()));
  return text;
}

// The command and all below it.
std::vector<const CommandText*> all_of(const CommandText& command) {
  std::vector<const CommandText*> all = {&command};
  for (const CommandText& verb : command.verbs) std::ranges::move(all_of(verb), std::back_inserter(all));
  return all;
}

std::string verb_name(const CommandText& command) { return command.name.substr(command.name.rfind(' ') + 1); }

std::string usage_of(const CommandText& command) {
  std::string usage = command.name.empty() ? "sparsmith" : "sparsmith " + command.name;
  if (!command.verbs.empty()) return usage + " COMMAND";
  for (const OptionText& option : command.options)
    if (option.flags.empty()) usage += option.required ? " " + option.value : fmt::format(" [{}]", option.value);
  for (const OptionText& option : command.options)
    if (!option.flags.empty() && option.required) usage += fmt::format(" {} {}", option.flags.front(), option.value);
  return usage + " [OPTION]...";
}

// In single quotes of a shell.
std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> flags_of(const CommandText& command) {
  std::vector<std::string> flags;
  for (const OptionText& option : command.options) std::ranges::copy(option.flags, std::back_inserter(flags));
  return flags;
}

std::vector<std::string> verbs_of(const CommandText& command) {
  std::vector<std::string> verbs;
  for (const CommandText& verb : command.verbs) verbs.push_back(verb_name(verb));
  return verbs;
}

// Bash: the words so far name the command; then a value, a flag, a command, or else a file.
std::string bash_script(const CommandText& program) {
  std::string known;
  std::string values;
  std::string flags;
  for (const CommandText* const command : all_of(program)) {
    if (!command->name.empty())
      known +=
          fmt::format("{}{}", known.empty() ? "" : "|",
                      shell_quoted(command->name.find(' ') == std::string::npos ? " " + command->name : command->name));
    flags += fmt::format("    {}) flags={} verbs={} ;;\n", shell_quoted(command->name),
                         shell_quoted(fmt::format("{}", fmt::join(flags_of(*command), " "))),
                         shell_quoted(fmt::format("{}", fmt::join(verbs_of(*command), " "))));
    for (const OptionText& option : command->options)
      for (const std::string& flag : option.choices.empty() ? std::vector<std::string>() : option.flags)
        values += fmt::format("    {}) values={} ;;\n", shell_quoted(command->name + " " + flag),
                              shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
  }
  return fmt::format(R"(# bash completion of sparsmith
_sparsmith() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command= values= flags= verbs= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in {}) command="${{command:+$command }}$word" ;; esac
  done
  case "$command ${{COMP_WORDS[COMP_CWORD-1]}}" in
{}  esac
  case "$command" in
{}  esac
  COMPREPLY=()
  if [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  elif [[ -n $verbs ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$current")
  fi
}}
complete -o bashdefault -o default -F _sparsmith sparsmith
)",
                     known, values, flags);
}

// As an element of _arguments: brackets and colons are its own.
std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char c : text)
    escaped += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return escaped;
}

std::string zsh_arguments(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    const std::string action = !option.choices.empty() ? fmt::format("({})", fmt::join(option.choices, " "))
                               : option.is_path        ? "_files"
                                                       : "";
    const std::string value = option.value.empty() ? "" : fmt::format(":{}:{}", zsh_text(option.value), action);
    for (const std::string& flag : option.flags)
      text += " \\\n        " + shell_quoted(fmt::format("*{}[{}]{}", flag, zsh_text(option.description), value));
  }
  return text;
}

std::string zsh_function(const CommandText& command, const std::string& function) {
  if (command.verbs.empty())
    return fmt::format("{}() {{\n  _arguments{} \\\n        '*:file:_files'\n}}\n", function, zsh_arguments(command));
  std::string verbs;
  std::string cases;
  std::string functions;
  for (const CommandText& verb : command.verbs) {
    const std::string name = verb_name(verb);
    verbs += "\n    " + shell_quoted(fmt::format("{}:{}", name, verb.description));
    cases += fmt::format("    {}) {}_{} ;;\n", name, function, name);
    functions += zsh_function(verb, function + "_" + name);
  }
  return functions + fmt::format(R"({}() {{
  local -a verbs line
  local state
  verbs=({}
  )
  _arguments -C{} \
        '1: :->verb' '*:: :->rest'
  case $state in
  verb) _describe command verbs ;;
  rest)
    case $line[1] in
{}    esac
    ;;
  esac
}}
)",
                                 function, verbs, zsh_arguments(command), cases);
}

std::string zsh_script(const CommandText& program) {
  return "#compdef sparsmith\n" + zsh_function(program, "_sparsmith") + "_sparsmith \"$@\"\n";
}

std::string fish_script(const CommandText& program) {
  std::string text = "# fish completion of sparsmith\n";
  const std::string verbs = fmt::format("{}", fmt::join(verbs_of(program), " "));
  for (const CommandText* const command : all_of(program)) {
    const std::size_t blank = command->name.find(' ');
    std::string when = "__fish_seen_subcommand_from " + command->name.substr(0, blank);
    if (command->name.empty()) when = "not __fish_seen_subcommand_from " + verbs;
    if (blank != std::string::npos) when += "; and __fish_seen_subcommand_from " + command->name.substr(blank + 1);
    std::string here = when;
    if (!command->name.empty() && !command->verbs.empty())
      here += "; and not __fish_seen_subcommand_from " + fmt::format("{}", fmt::join(verbs_of(*command), " "));
    for (const CommandText& verb : command->verbs)
      text += fmt::format("complete -c sparsmith -f -n {} -a {} -d {}\n", shell_quoted(here), verb_name(verb),
                          shell_quoted(verb.description));
    for (const OptionText& option : command->options) {
      if (option.flags.empty()) continue;
      std::string line = fmt::format("complete -c sparsmith -n {}", shell_quoted(when));
      for (const std::string& flag : option.flags)
        line += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
      line += " -d " + shell_quoted(option.description);
      if (!option.value.empty()) line += option.is_path ? " -r" : " -x";
      if (!option.choices.empty()) line += " -a " + shell_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
      text += line + "\n";
    }
  }
  return text;
}

std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  if (escaped.starts_with('.') || escaped.starts_with('\'')) escaped.insert(0, "\\&");
  return escaped;
}

std::string with_default(const OptionText& option) {
  return option.description + (option.initial.empty() ? "" : fmt::format(" (default: {})", option.initial));
}

std::string man_options(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options)
    text += fmt::format(".TP\n.B {}\n{}\n", roff(option.synopsis()), roff(with_default(option)));
  return text;
}

constexpr const char* kExitCodes =
    "| code | meaning |\n|---:|---|\n| 0 | done |\n| 1 | failed, interrupted, or no result |\n| 2 | wrong use of the "
    "command |\n| 3 | an input is missing or damaged |\n| 4 | no usable GPU |\n| 5 | `perf compare` found a "
    "regression |\n";

std::string man_page(const CommandText& command, const std::string& title) {
  std::string upper = title;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text =
      fmt::format(".TH {} 1 \"\" \"sparsmith {}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n", roff(upper),
                  SPARSMITH_VERSION, roff(title), roff(command.description), roff(usage_of(command)));
  if (!command.options.empty()) text += ".SH OPTIONS\n" + man_options(command);
  if (!command.verbs.empty()) text += ".SH COMMANDS\n";
  for (const CommandText& verb : command.verbs) {
    text += fmt::format(".SS {}\n{}\n", roff(usage_of(verb)), roff(verb.description));
    if (!command.name.empty()) text += man_options(verb);
  }
  text += ".SH EXIT STATUS\n";
  for (const std::string_view line : split(kExitCodes, "\n")) {
    const auto cells = split(line, "|");
    if (cells.size() > 2 && std::isdigit(static_cast<unsigned char>(cells[1].substr(1)[0])) != 0)
      text += fmt::format(".TP\n.B{}\n{}\n", cells[1], roff(cells[2].substr(1)));
  }
  if (!command.name.empty()) text += ".SH SEE ALSO\n.BR sparsmith (1)\n";
  return text;
}

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string markdown(const CommandText& command) {
  std::string text =
      fmt::format("\n##{} {}\n\n{}.\n\n```text\n{}\n```\n", command.name.find(' ') == std::string::npos ? "" : "#",
                  command.name, command.description, usage_of(command));
  if (command.verbs.empty()) {
    text += "\n| option | meaning | default |\n|---|---|---|\n";
    for (const OptionText& option : command.options) {
      if (option.flags == std::vector<std::string>{"-h", "--help"}) continue;
      text += fmt::format("| `{}` | {} | {} |\n", cell(option.synopsis()), cell(option.description),
                          option.initial.empty() ? "" : "`" + cell(option.initial) + "`");
    }
  }
  for (const CommandText& verb : command.verbs) text += markdown(verb);
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, std::string_view shell) {
  const CommandText program = text_of(app, "");
  return shell == "zsh" ? zsh_script(program) : shell == "fish" ? fish_script(program) : bash_script(program);
}

std::vector<std::pair<std::string, std::string>> man_pages(const CLI::App& app) {
  const CommandText program = text_of(app, "");
  std::vector<std::pair<std::string, std::string>> pages = {{"sparsmith.1", man_page(program, "sparsmith")}};
  for (const CommandText& command : program.verbs) {
    const std::string title = "sparsmith-" + command.name;
    pages.emplace_back(title + ".1", man_page(command, title));
  }
  return pages;
}

std::string commands_page(const CLI::App& app) {
  const CommandText program = text_of(app, "");
  std::string text =
      "# Commands\n\nThe commands of `sparsmith`, as `sparsmith COMMAND --help` has them. `-v` logs details, `-q` logs "
      "errors only,\n"
      "`--version` prints the version. `NO_COLOR=1` turns colours off. This page is the output of `sparsmith "
      "manual`.\n\n| command | purpose |\n|---|---|\n";
  for (const CommandText& command : program.verbs)
    text += fmt::format("| [{0}](#{0}) | {1} |\n", command.name, command.description);
  text += fmt::format("\n## Exit codes\n\n{}", kExitCodes);
  for (const CommandText& command : program.verbs) text += markdown(command);
  return text;
}

}  // namespace sparsmith::tools
