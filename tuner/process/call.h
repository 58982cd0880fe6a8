// Calls from a parent to its child. A call is a struct with fields (fields.h), a name, and the type of its reply. A
// protocol is a variant of calls. To add a call, add a struct to the variant and a handler to the child.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "sparsmith/status.h"

// Writes fields() for a struct of another room: SPARSMITH_FIELDS(DeviceSpeeds, memory_bandwidth, l2_bandwidth).
#define SPARSMITH_FIELDS(Type, ...) \
  void fields(auto& f, Type& value) { SPARSMITH_AGAIN_27(SPARSMITH_FIELD(__VA_ARGS__)) }
#define SPARSMITH_FIELD(member, ...) \
  f(#member, value.member);          \
  __VA_OPT__(SPARSMITH_NEXT_FIELD SPARSMITH_NOTHING()()(__VA_ARGS__))
#define SPARSMITH_NEXT_FIELD() SPARSMITH_FIELD
#define SPARSMITH_NOTHING()
#define SPARSMITH_AGAIN_27(...) SPARSMITH_AGAIN_9(SPARSMITH_AGAIN_9(SPARSMITH_AGAIN_9(__VA_ARGS__)))
#define SPARSMITH_AGAIN_9(...) SPARSMITH_AGAIN_3(SPARSMITH_AGAIN_3(SPARSMITH_AGAIN_3(__VA_ARGS__)))
#define SPARSMITH_AGAIN_3(...) SPARSMITH_AGAIN(SPARSMITH_AGAIN(SPARSMITH_AGAIN(__VA_ARGS__)))
#define SPARSMITH_AGAIN(...) __VA_ARGS__

namespace sparsmith {

// The reply to a call without results.
struct Done {
  void fields(auto&) {}
};

// The return type of a call, in its handler and for its caller.
template <class Call>
using AnswerTo = std::conditional_t<std::is_same_v<typename Call::Reply, Done>, Status, Result<typename Call::Reply>>;

// Hands `call` to its handler. `Reply`: the variant of all replies of the protocol.
template <class Reply, class... Calls, class Handle>
Result<Reply> answer_call(std::variant<Calls...>& call, const Handle& handle) {
  return std::visit(
      [&]<class Call>(Call& typed) -> Result<Reply> {
        AnswerTo<Call> answer = handle(typed);
        if constexpr (std::is_same_v<decltype(answer), Status>) {
          return answer.ok() ? Result<Reply>(typename Call::Reply()) : Result<Reply>(answer);
        } else {
          return answer.ok() ? Result<Reply>(*std::move(answer)) : Result<Reply>(answer.status());
        }
      },
      call);
}

// A large value of a call. The sender has a view, the receiver owns the value.
template <class T>
class Payload {
 public:
  Payload() = default;
  Payload(const T& value) : view_(&value) {}      // NOLINT(google-explicit-constructor): REQUIRES: outlives it
  Payload(T&& value) : own_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  const T& operator*() const { return view_ == nullptr ? own_ : *view_; }
  const T* operator->() const { return &**this; }
  // The value; a view is copied.
  T take() { return view_ == nullptr ? std::move(own_) : *view_; }

  void fields(auto& f) { list_fields(f, view_ == nullptr ? own_ : const_cast<T&>(*view_)); }

 private:
  const T* view_ = nullptr;
  T own_;
};

}  // namespace sparsmith
