#include "snippetc/snippet_reader.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/FileManager.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Lex/Lexer.h>
#include <clang/Tooling/Tooling.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "generator/source_tokens.h"
#include "snippetc/checks.h"

namespace sparsmith::snippetc {
namespace {

// Where clang sees the tree, and the toolkit header that its own headers insist on.
constexpr std::string_view kTreeRoot = "/sparsmith/";
constexpr std::string_view kStubRoot = "/sparsmith-toolkit";

// The path in the tree; the whole path for a file that is not of it.
std::string tree_path(llvm::StringRef file) {
  file.consume_front(llvm::StringRef(kTreeRoot.data(), kTreeRoot.size()));
  return file.str();
}

bool is_in_tree(const clang::SourceManager& sources, clang::SourceLocation location) {
  return sources.getFilename(sources.getExpansionLoc(location))
      .starts_with(llvm::StringRef(kTreeRoot.data(), kTreeRoot.size()));
}

Finding finding_at(const clang::SourceManager& sources, clang::SourceLocation location, std::string message) {
  const clang::SourceLocation place = sources.getExpansionLoc(location);
  return {tree_path(sources.getFilename(place)), static_cast<int>(sources.getSpellingLineNumber(place)),
          std::move(message)};
}

// Collects errors; warnings are for the compilers that build kernels.
class ErrorCollector : public clang::DiagnosticConsumer {
 public:
  explicit ErrorCollector(Findings& findings) : findings_(findings) {}

  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& diagnostic) override {
    DiagnosticConsumer::HandleDiagnostic(level, diagnostic);
    if (level < clang::DiagnosticsEngine::Error) return;
    llvm::SmallString<256> message;
    diagnostic.FormatDiagnostic(message);
    if (diagnostic.hasSourceManager() && diagnostic.getLocation().isValid()) {
      findings_.push_back(finding_at(diagnostic.getSourceManager(), diagnostic.getLocation(), message.str().str()));
    } else {
      findings_.push_back({"snippetc", 0, message.str().str()});
    }
  }

 private:
  Findings& findings_;
};

// The source of a range as one line, without comments.
std::string source_text(const clang::ASTContext& context, clang::SourceRange range) {
  const llvm::StringRef text = clang::Lexer::getSourceText(clang::CharSourceRange::getTokenRange(range),
                                                           context.getSourceManager(), context.getLangOpts());
  std::string line;
  for (const SourceToken& token : scan_source(std::string_view(text.data(), text.size()))) {
    if (!line.empty() && token.after_blank) line += ' ';
    line += token.text;
  }
  return line;
}

// Takes one class apart.
class SnippetScanner {
 public:
  SnippetScanner(const clang::ASTContext& context, const clang::CXXRecordDecl& record)
      : context_(context), record_(record), template_(record.getDescribedClassTemplate()) {}

  SnippetFacts scan() {
    facts_.name = record_.getNameAsString();
    facts_.line = line_of(record_.getLocation());
    facts_.is_nested_namespace = is_in_nested_namespace();
    facts_.comment = comment();
    if (template_ != nullptr) {
      for (const clang::NamedDecl* parameter : *template_->getTemplateParameters()) scan_parameter(*parameter);
    }
    for (const clang::Decl* member : record_.decls()) scan_member(*member);
    return std::move(facts_);
  }

 private:
  int line_of(clang::SourceLocation location) const {
    return static_cast<int>(context_.getSourceManager().getExpansionLineNumber(location));
  }

  bool is_in_nested_namespace() const {
    const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(record_.getDeclContext());
    return space != nullptr && llvm::isa<clang::NamespaceDecl>(space->getParent());
  }

  std::string comment() const {
    const clang::Decl* decl = template_ != nullptr ? static_cast<const clang::Decl*>(template_) : &record_;
    const clang::RawComment* raw = context_.getRawCommentForDeclNoCache(decl);
    if (raw == nullptr) return "";
    std::string text = raw->getFormattedText(context_.getSourceManager(), context_.getDiagnostics());
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  void scan_parameter(const clang::NamedDecl& parameter) {
    ParameterFacts facts;
    facts.name = parameter.getNameAsString();
    const auto scan_default = [&](const auto& declared) {
      if (declared.hasDefaultArgument())
        facts.default_text = source_text(context_, declared.getDefaultArgument().getSourceRange());
    };
    if (const auto* value = llvm::dyn_cast<clang::NonTypeTemplateParmDecl>(&parameter)) {
      facts.kind = ParameterFacts::Kind::kValue;
      facts.type = value->getType().getAsString(context_.getPrintingPolicy());
      scan_default(*value);
    } else if (const auto* type = llvm::dyn_cast<clang::TemplateTypeParmDecl>(&parameter)) {
      facts.kind = ParameterFacts::Kind::kType;
      facts.type = "class";
      scan_default(*type);
    } else if (const auto* nested = llvm::dyn_cast<clang::TemplateTemplateParmDecl>(&parameter)) {
      facts.kind = ParameterFacts::Kind::kTemplate;
      facts.type = "template";
      scan_default(*nested);
    }
    facts_.parameters.push_back(std::move(facts));
  }

  void scan_member(const clang::Decl& member) {
    if (const auto* constraint = llvm::dyn_cast<clang::StaticAssertDecl>(&member)) scan_constraint(*constraint);
    for (const auto* annotation : member.specific_attrs<clang::AnnotateAttr>()) scan_annotation(member, *annotation);
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(&member)) scan_variable(*variable);
    if (const auto* function = member.getAsFunction()) scan_function(*function);
  }

  void scan_constraint(const clang::StaticAssertDecl& constraint) {
    ConstraintFacts facts;
    facts.expression = source_text(context_, constraint.getAssertExpr()->getSourceRange());
    if (const auto* reason = llvm::dyn_cast_or_null<clang::StringLiteral>(constraint.getMessage())) {
      facts.reason = reason->getString().str();
    }
    facts.line = line_of(constraint.getLocation());
    facts_.constraints.push_back(std::move(facts));
  }

  // [[clang::annotate("sparsmith.tune", "kLanes", 1, 2)]]: see snippets/contract.cuh.
  void scan_annotation(const clang::Decl& member, const clang::AnnotateAttr& annotation) {
    const llvm::ArrayRef<clang::Expr*> arguments(annotation.args_begin(), annotation.args_size());
    const int line = line_of(member.getLocation());
    if (arguments.empty()) return;
    if (annotation.getAnnotation() == "sparsmith.role") {
      facts_.has_role = true;
      facts_.role = string_of(*arguments[0]);
      facts_.role_line = line;
    } else if (annotation.getAnnotation() == "sparsmith.tune") {
      TuneFacts tune{.parameter = string_of(*arguments[0]), .values = {}, .is_integral = true, .line = line};
      for (const clang::Expr* argument : arguments.drop_front()) scan_tuned_value(*argument, tune);
      facts_.tuned.push_back(std::move(tune));
    }
  }

  std::string string_of(const clang::Expr& argument) const {
    const auto* literal = llvm::dyn_cast<clang::StringLiteral>(argument.IgnoreParenImpCasts());
    return literal == nullptr ? source_text(context_, argument.getSourceRange()) : literal->getString().str();
  }

  void scan_tuned_value(const clang::Expr& argument, TuneFacts& tune) const {
    clang::Expr::EvalResult result;
    const bool is_integral = !argument.isValueDependent() && argument.getType()->isIntegralOrEnumerationType() &&
                             argument.EvaluateAsInt(result, context_);
    if (is_integral) tune.values.push_back(result.Val.getInt().getExtValue());
    tune.is_integral = tune.is_integral && is_integral;
  }

  void scan_variable(const clang::VarDecl& variable) {
    if (variable.getName() != "kSharedBytes" || variable.getInit() == nullptr) return;
    facts_.shared_bytes = source_text(context_, variable.getInit()->getSourceRange());
  }

  void scan_function(const clang::FunctionDecl& function) {
    const auto* name = function.getIdentifier();
    if (name == nullptr || name->getName() != "shared_bytes" || !function.hasBody()) return;
    const auto* body = llvm::dyn_cast<clang::CompoundStmt>(function.getBody());
    if (body == nullptr || body->size() != 1) return;
    const auto* result = llvm::dyn_cast<clang::ReturnStmt>(body->body_front());
    if (result == nullptr || result->getRetValue() == nullptr) return;
    std::vector<std::string> parameters;
    for (const clang::ParmVarDecl* parameter : function.parameters()) {
      if (!parameter->getName().empty()) parameters.push_back(parameter->getNameAsString());
    }
    const std::string formula = source_text(context_, result->getRetValue()->getSourceRange());
    facts_.shared_bytes = parameters.empty() ? formula : fmt::format("({}): {}", fmt::join(parameters, ", "), formula);
  }

  const clang::ASTContext& context_;
  const clang::CXXRecordDecl& record_;
  const clang::ClassTemplateDecl* template_;
  SnippetFacts facts_;
};

// Walks one header: its classes, and the CUDA names that it uses.
class HeaderReader : public clang::ASTConsumer, public clang::RecursiveASTVisitor<HeaderReader> {
 public:
  HeaderReader(const clang::ASTContext& context, std::string header, std::vector<SnippetFacts>& snippets,
               Findings& findings)
      : context_(context),
        sources_(context.getSourceManager()),
        header_(std::move(header)),
        snippets_(snippets),
        findings_(findings) {}

  void HandleTranslationUnit(clang::ASTContext& context) override { TraverseDecl(context.getTranslationUnitDecl()); }

  bool VisitCXXRecordDecl(clang::CXXRecordDecl* record) {
    const bool is_class = record->isThisDeclarationADefinition() && !record->isImplicit() && !record->isLambda() &&
                          record->getDeclContext()->isFileContext() && record->getIdentifier() != nullptr &&
                          !llvm::isa<clang::ClassTemplateSpecializationDecl>(record);
    if (!is_class || !is_here(record->getLocation())) return true;
    snippets_.push_back(SnippetScanner(context_, *record).scan());
    snippets_.back().header = header_;
    return true;
  }

  bool VisitDeclRefExpr(clang::DeclRefExpr* reference) {
    check_name(*reference->getDecl(), reference->getLocation());
    return true;
  }

  bool VisitUnresolvedLookupExpr(clang::UnresolvedLookupExpr* lookup) {
    for (const clang::NamedDecl* found : lookup->decls()) {
      if (check_name(*found, lookup->getNameLoc())) break;
    }
    return true;
  }

 private:
  bool is_here(clang::SourceLocation location) const {
    return tree_path(sources_.getFilename(sources_.getExpansionLoc(location))) == header_;
  }

  // Reports a name that comes from outside the tree, once.
  bool check_name(const clang::NamedDecl& named, clang::SourceLocation location) {
    if (is_of_device(header_) || !is_here(location)) return false;
    const bool is_ours = named.getLocation().isValid() && is_in_tree(sources_, named.getLocation());
    if (is_ours || is_machine_word(named.getNameAsString())) return false;
    findings_.push_back(finding_at(sources_, location,
                                   fmt::format("names {}, which is CUDA's: only {} does, so that the emulator has a "
                                               "twin of it",
                                               named.getNameAsString(), kDeviceFolder)));
    return true;
  }

  const clang::ASTContext& context_;
  const clang::SourceManager& sources_;
  std::string header_;
  std::vector<SnippetFacts>& snippets_;
  Findings& findings_;
};

class ReadHeader : public clang::ASTFrontendAction {
 public:
  ReadHeader(std::string header, std::vector<SnippetFacts>& snippets, Findings& findings)
      : header_(std::move(header)), snippets_(snippets), findings_(findings) {}

 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef /*file*/) override {
    return std::make_unique<HeaderReader>(compiler.getASTContext(), header_, snippets_, findings_);
  }

 private:
  std::string header_;
  std::vector<SnippetFacts>& snippets_;
  Findings& findings_;
};

// The device side of a CUDA program that sees the tree, the prelude and clang's own headers, and nothing else.
std::vector<std::string> clang_command(const std::string& file, const std::vector<std::string>& options) {
  std::vector<std::string> command = {"clang++", "-fsyntax-only", "-w", "-ferror-limit=0", "-fno-caret-diagnostics"};
  const auto add = [&command](std::initializer_list<std::string> more) { command.insert(command.end(), more); };
  add({"-x", "cuda", "-std=c++20", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-fparse-all-comments"});
  add({"-nocudainc", "-nocudalib", "-nostdlibinc", "-nostdinc++", "-resource-dir", SNIPPETC_CLANG_RESOURCES});
  add({"-include", SNIPPETC_PRELUDE, "-isystem", std::string(kStubRoot), "-I", std::string(kTreeRoot)});
  command.insert(command.end(), options.begin(), options.end());
  command.push_back(file);
  return command;
}

// Runs `action` over `source`, a file of that name in the tree.
void run_clang(std::unique_ptr<clang::FrontendAction> action, const SourceTree& tree, const std::string& name,
               const std::string& source, const std::vector<std::string>& options, Findings& findings) {
  const std::string root(kTreeRoot);
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> memory(new llvm::vfs::InMemoryFileSystem);
  llvm::IntrusiveRefCntPtr<llvm::vfs::OverlayFileSystem> overlay(
      new llvm::vfs::OverlayFileSystem(llvm::vfs::getRealFileSystem()));
  overlay->pushOverlay(memory);
  const auto add = [&](const std::string& path, const std::string& text) {
    memory->addFile(path, 0, llvm::MemoryBuffer::getMemBufferCopy(text));
  };
  for (const auto& [path, text] : tree.files()) add(root + path, text);
  add(root + name, source);
  add(std::string(kStubRoot) + "/crt/sm_70_rt.hpp", "");

  llvm::IntrusiveRefCntPtr<clang::FileManager> files(new clang::FileManager(clang::FileSystemOptions(), overlay));
  ErrorCollector errors(findings);
  clang::tooling::ToolInvocation invocation(clang_command(root + name, options), std::move(action), files.get());
  invocation.setDiagnosticConsumer(&errors);
  invocation.run();
}

// The comment that opens a header, without its slashes.
std::string opening_comment(std::string_view text) {
  std::string comment;
  while (text.starts_with("//")) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(2, end - 2);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (!comment.empty()) comment += '\n';
    comment += line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return comment;
}

}  // namespace

std::vector<SnippetFacts> read_snippets(const SourceTree& tree, const std::string& header, Findings& findings) {
  std::vector<SnippetFacts> snippets;
  run_clang(std::make_unique<ReadHeader>(header, snippets, findings), tree, "snippetc.cu",
            fmt::format("#include \"{}\"\n", header), {"-DSPARSMITH_CATALOGUE"}, findings);
  for (SnippetFacts& snippet : snippets) snippet.header_comment = opening_comment(tree.find(header).value_or(""));
  return snippets;
}

void check_syntax(const std::string& name, const std::string& source, Findings& findings) {
  run_clang(std::make_unique<clang::SyntaxOnlyAction>(), SourceTree(), name, source, {}, findings);
}

}  // namespace sparsmith::snippetc
