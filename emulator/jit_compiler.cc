#include "emulator/jit_compiler.h"

#include <clang/Basic/DiagnosticOptions.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <fmt/format.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Instrumentation/ThreadSanitizer.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>
#include <utility>
#include <vector>

#include "base/split.h"
#include "emulator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr const char* kAlignmentCheck = "sparsmith_emulator_check_alignment";

Status from_llvm(const char* what, llvm::Error error) {
  return internal_error(fmt::format("{}: {}", what, llvm::toString(std::move(error))));
}

// A kernel in a library of its own, which is removed with it.
class JitKernel : public CpuKernel {
 public:
  JitKernel(std::shared_ptr<llvm::orc::LLJIT> jit, llvm::orc::JITDylib& code) : jit_(std::move(jit)), code_(code) {}
  ~JitKernel() override { llvm::consumeError(jit_->getExecutionSession().removeJITDylib(code_)); }

  Status resolve() {
    auto entry = jit_->lookup(code_, kernel_entry_symbol());
    if (!entry) return from_llvm("a kernel does not link in the emulator", entry.takeError());
    auto sizes = jit_->lookup(code_, kernel_parameters_symbol());
    if (!sizes) return from_llvm("a kernel does not link in the emulator", sizes.takeError());
    set_code(entry->toPtr<Entry>(), *sizes->toPtr<const int* const*>());
    return {};
  }

 private:
  std::shared_ptr<llvm::orc::LLJIT> jit_;
  llvm::orc::JITDylib& code_;
};

// Options of LLVM that have no place but the process. Set once.
void set_process_options() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    const char* options[] = {"sparsmith", "-tsan-instrument-read-before-write=1", "-tsan-instrument-func-entry-exit=0"};
    llvm::cl::ParseCommandLineOptions(3, options, "", &llvm::nulls());
  });
}

// A vector that is copied whole or element by element is still one access to the hardware, aligned as a whole. The
// callbacks know sizes only; so what is aligned beyond its size is checked by a call of its own. Runs behind the
// optimizer and before the instrumentation.
class AlignmentChecks : public llvm::PassInfoMixin<AlignmentChecks> {
 public:
  static llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    for (llvm::Function& function : module) {
      if (!function.hasFnAttribute(llvm::Attribute::SanitizeThread)) continue;
      for (llvm::Instruction& instruction : llvm::instructions(function)) {
        if (llvm::Value* pointer = llvm::getLoadStorePointerOperand(&instruction)) {
          const llvm::TypeSize size = module.getDataLayout().getTypeStoreSize(llvm::getLoadStoreType(&instruction));
          check(instruction, pointer, llvm::getLoadStoreAlignment(&instruction), size.getFixedValue());
        } else if (auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(&instruction)) {
          check(instruction, copy->getDest(), copy->getDestAlign().valueOrOne(), 1);
          check(instruction, copy->getSource(), copy->getSourceAlign().valueOrOne(), 1);
        }
      }
    }
    return llvm::PreservedAnalyses::none();
  }

 private:
  static void check(llvm::Instruction& before, llvm::Value* pointer, llvm::Align align, std::uint64_t size) {
    if (align.value() <= size || llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(pointer))) return;
    llvm::IRBuilder<> builder(&before);
    const llvm::FunctionCallee callback = before.getModule()->getOrInsertFunction(
        kAlignmentCheck, builder.getVoidTy(), builder.getPtrTy(), builder.getInt32Ty());
    builder.CreateCall(callback, {pointer, builder.getInt32(static_cast<std::uint32_t>(align.value()))});
  }
};

// Makes the text's layers of small functions disappear, then instruments what is left. Less than clang's -O1, whose
// loop passes gain little in code that calls out at every access.
void optimize_and_instrument(llvm::Module& module) {
  llvm::PassBuilder builder;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager call_graph;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(call_graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, call_graph, modules);

  llvm::FunctionPassManager simplify;
  simplify.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  simplify.addPass(llvm::EarlyCSEPass(true));
  simplify.addPass(llvm::SimplifyCFGPass());
  simplify.addPass(llvm::InstCombinePass());
  simplify.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  simplify.addPass(llvm::EarlyCSEPass(true));
  simplify.addPass(llvm::SimplifyCFGPass());

  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(simplify)));
  passes.addPass(AlignmentChecks());
  passes.addPass(llvm::ModuleThreadSanitizerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::ThreadSanitizerPass()));
  passes.run(module, modules);
}

class JitCompiler : public CpuKernelCompiler {
 public:
  static Result<std::unique_ptr<CpuKernelCompiler>> create() {
    set_process_options();
    auto target = llvm::orc::JITTargetMachineBuilder::detectHost();
    if (!target) return from_llvm("clang in process", target.takeError());
    target->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
    auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(*target).create();
    if (!jit) return from_llvm("clang in process", jit.takeError());
    std::unique_ptr<JitCompiler> compiler(new JitCompiler());
    compiler->jit_ = std::move(*jit);
    SPARSMITH_RETURN_IF_ERROR(compiler->define_entry_points());
    return std::unique_ptr<CpuKernelCompiler>(std::move(compiler));
  }

  std::string name() const override { return "clang " LLVM_VERSION_STRING " in process"; }

  Result<std::unique_ptr<CpuKernel>> compile(const std::string& kernel, const std::string& source) override {
    const std::lock_guard lock(mutex_);
    auto context = std::make_unique<llvm::LLVMContext>();
    SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module, to_module(kernel, source, *context));
    auto code = jit_->createJITDylib(fmt::format("kernel {}", ++kernels_));
    if (!code) return from_llvm("clang in process", code.takeError());
    auto result = std::make_unique<JitKernel>(jit_, *code);
    code->addToLinkOrder(jit_->getMainJITDylib());
    if (auto error = jit_->addIRModule(*code, {std::move(module), std::move(context)})) {
      return from_llvm("clang in process", std::move(error));
    }
    SPARSMITH_RETURN_IF_ERROR(result->resolve());
    return std::unique_ptr<CpuKernel>(std::move(result));
  }

 private:
  JitCompiler() = default;

  // In the main library, to which every kernel links; what is not there (expf, ...) comes from the process.
  Status define_entry_points() {
    llvm::orc::SymbolMap symbols;
    for (const EntryPoint& entry : entry_points()) {
      symbols[jit_->mangleAndIntern(entry.symbol)] = {llvm::orc::ExecutorAddr::fromPtr(entry.address),
                                                      llvm::JITSymbolFlags::Exported};
    }
    llvm::orc::JITDylib& main = jit_->getMainJITDylib();
    if (auto error = main.define(llvm::orc::absoluteSymbols(std::move(symbols)))) {
      return from_llvm("clang in process", std::move(error));
    }
    auto process =
        llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(jit_->getDataLayout().getGlobalPrefix());
    if (!process) return from_llvm("clang in process", process.takeError());
    main.addGenerator(std::move(*process));
    return {};
  }

  static Result<std::unique_ptr<llvm::Module>> to_module(const std::string& kernel, const std::string& source,
                                                         llvm::LLVMContext& context) {
    const std::string file = "/" + kernel;  // so messages begin with the kernel's name
    const std::string words_of_clang = fmt::format(
        "-triple {} -target-cpu {} -x c++ -std=c++20 -O1 -disable-llvm-passes -fsanitize=thread -ffp-contract=off "
        "-fno-rtti -fno-delete-null-pointer-checks -mrelocation-model pic -pic-level 2 -w -D SPARSMITH_EMULATOR "
        "-nostdsysteminc -nobuiltininc -I / -fdiagnostics-absolute-paths {}",
        llvm::sys::getDefaultTargetTriple(), llvm::sys::getHostCPUName().str(), file);
    std::vector<std::string> words;
    for (const std::string_view word : split(words_of_clang, " ")) words.emplace_back(word);
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());

    auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
    files->addFile(file, 0, llvm::MemoryBuffer::getMemBufferCopy(text_with_entry(kernel, source)));
    for (const TwinHeader& twin : device_twins())
      files->addFile(fmt::format("/{}", twin.path), 0, llvm::MemoryBuffer::getMemBuffer(twin.text));

    std::string messages;
    llvm::raw_string_ostream stream(messages);
    auto options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
    clang::CompilerInstance compiler;
    compiler.createDiagnostics(new clang::TextDiagnosticPrinter(stream, options.get()));
    const bool parsed =
        clang::CompilerInvocation::CreateFromArgs(compiler.getInvocation(), arguments, compiler.getDiagnostics());
    compiler.createFileManager(files);
    compiler.getDiagnostics().setIgnoreAllWarnings(true);
    compiler.setVerboseOutputStream(stream);
    clang::EmitLLVMOnlyAction action(&context);
    if (!parsed || !compiler.ExecuteAction(action)) {
      return invalid_input(
          fmt::format("kernel {} does not compile for the emulator (clang in process):\n{}", kernel, messages));
    }
    std::unique_ptr<llvm::Module> module = action.takeModule();
    optimize_and_instrument(*module);
    return module;
  }

  std::mutex mutex_;
  std::shared_ptr<llvm::orc::LLJIT> jit_;
  int kernels_ = 0;
};

}  // namespace

Result<std::unique_ptr<CpuKernelCompiler>> make_jit_compiler() { return JitCompiler::create(); }

}  // namespace sparsmith
