// The files that a command writes, checked before the command does any work: no output replaces an input, another
// output, or a file that this command could not have written. Files are compared by device and inode, so that other
// names, symbolic links and hard links of one file are one file.
#pragma once

#include <CLI/CLI.hpp>

#include <initializer_list>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith::tools {

enum class OutputKind {
  kTunedFile,
  kDrawnModel,  // safetensors of `sparsmith synth`
  kPattern,     // .smtx
  kPage,        // HTML
  kJUnit,
  kT4,       // JSON of `sparsmith space export-t4`
  kSource,   // a kernel's .cu
  kNames,    // of cases; the caller checks what an existing file holds
  kRecords,  // of `--record`: added to, not replaced
  kCache,    // opened and added to; whoever opens it checks what it is
};

struct OutputFile {
  std::string option;  // "--html", as messages name it
  std::string path;    // empty: not asked for
  OutputKind kind = OutputKind::kPage;
};

// The option `--force` of a command that replaces files.
void add_force_option(CLI::App& command, bool& force);

// Ok when every output can be written, is none of the inputs and no other output, and either does not exist, is empty,
// or is of its kind. A model's index stands for its shards too. Nothing is written.
//   force: files of other kinds may be replaced. Inputs, folders, devices and symbolic links never are.
//   Errors: kInvalidArgument, naming the option and the file; kIoError and kNotFound where no file can be made.
Status check_outputs(const std::vector<std::string>& inputs, const std::vector<OutputFile>& outputs, bool force);

}  // namespace sparsmith::tools
