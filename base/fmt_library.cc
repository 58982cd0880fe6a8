// libfmt, compiled once into a static library of ours: Debian ships it only as a shared one, and as headers alone it
// makes every file that formats a line five times slower to compile.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template std::locale locale_ref::get<std::locale>() const;
template char decimal_point_impl<char>(locale_ref);
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
// Since libfmt 10 its headers declare this instance extern.
template void vformat_to<char>(buffer<char>&, basic_string_view<char>, basic_format_args<buffer_context<char>>,
                               locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
