// Checks the output files of a command before its work. No output may replace an input, another output, or a file of
// another kind. Files are compared by device and inode, so other names, symbolic links and hard links of a file are the
// same file.
#pragma once

#include <CLI/CLI.hpp>

#include <initializer_list>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith::tools {

// In the order of the table in output_files.cc.
enum class OutputKind {
  kTunedFile,
  kDrawnModel,  // safetensors of `sparsmith synth`
  kPattern,     // .smtx
  kPage,        // HTML
  kJUnit,
  kT4,       // JSON of `sparsmith space export-t4`
  kSource,   // a kernel's .cu
  kNames,    // of cases; the caller checks the contents of an existing file
  kRecords,  // of `--record`; extended, not replaced
  kCache,    // opened and extended; Cache::open() checks its kind
};

struct OutputFile {
  std::string option;  // "--html", for messages
  std::string path;    // empty: no such output
  OutputKind kind = OutputKind::kPage;
};

// Adds the option `--force` of a command that replaces files.
void add_force_option(CLI::App& command, bool& force);

// Ok when every output can be written, is not an input or another output, and does not exist, is empty, or is of its
// kind. A model's index stands for its shards too. Nothing is written.
//   force: files of other kinds may be replaced. Inputs, folders, devices and symbolic links are never replaced.
//   Errors: kInvalidArgument, which names the option and the file; kIoError and kNotFound when no file can be made.
Status check_outputs(const std::vector<std::string>& inputs, const std::vector<OutputFile>& outputs, bool force);

}  // namespace sparsmith::tools
