// Files of recorded spaces: any bytes as a file, and the same bytes compressed, whole and cut off. What is read of a
// compressed file is what its text says; a file that is cut off is refused.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "search/record/recorded_space.h"

namespace sparsmith {
namespace {

// A file that stands in memory alone.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : descriptor_(memfd_create("records", 0)) {
    if (write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

std::string compressed(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16;
  if (deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string text_of(const std::vector<RecordedSpace>& spaces) {
  std::string text;
  for (const RecordedSpace& space : spaces) text += to_json_lines(space);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)read_spaces(MemoryFile(text).path());

  const auto spaces = parse_spaces(text);
  const std::string packed = compressed(text);
  const auto read = read_spaces(MemoryFile(packed).path());
  if (read.ok() != spaces.ok()) std::abort();
  if (read.ok() && text_of(*read) != text_of(*spaces)) std::abort();
  if (size > 1) {
    // What is left of a gzip file of at least its header's ten bytes.
    const std::size_t cut = std::min(packed.size() - 1, 10 + data[size / 2] * packed.size() / 256);
    if (read_spaces(MemoryFile(packed.substr(0, cut)).path()).ok()) std::abort();
  }
  return 0;
}

}  // namespace sparsmith
