#include "search/trial/device_sessions.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

// What a session may have on its device: packings, the dense weight, their cold copies, X and Y of many tokens.
constexpr std::int64_t kSessionBytes = std::int64_t{16} << 30;

using Opened = std::optional<Result<DeviceSession>>;

// All at once: starting a worker takes a second.
std::vector<Opened> open_all(const std::vector<const WorkerFactory*>& factories) {
  std::vector<Opened> opened(factories.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < factories.size(); ++i)
    threads.emplace_back([&, i] { opened[i].emplace(DeviceSession::open(*factories[i])); });
  threads.clear();  // joins
  return opened;
}

Status check_classes(std::span<const DeviceSession> sessions) {
  const std::string wanted = sessions.front().properties().device_class();
  for (const DeviceSession& session : sessions) {
    const std::string found = session.properties().device_class();
    if (found == wanted) continue;
    return invalid_argument(
        fmt::format("the devices are of different classes, {} and {}: what is fastest on one need not be so on the "
                    "other; tune for each in a run of its own",
                    wanted, found));
  }
  return {};
}

bool shares(const DeviceSession& session, int searches) {
  return session.takes_turns() && session.properties().memory_bytes >= searches * kSessionBytes;
}

}  // namespace

Result<std::vector<DeviceSession>> open_sessions(const std::vector<WorkerFactory>& factories, int searches) {
  if (factories.empty()) return invalid_argument("no device is given");
  std::vector<const WorkerFactory*> devices;
  for (const WorkerFactory& factory : factories) devices.push_back(&factory);
  std::vector<DeviceSession> sessions;
  for (Opened& each : open_all(devices)) {
    if (!each->ok()) return each->status();
    sessions.push_back(**std::move(each));
  }
  SPARSMITH_RETURN_IF_ERROR(check_classes(sessions));

  std::vector<const WorkerFactory*> further;
  for (int i = 1; i < searches; ++i) {
    for (std::size_t device = 0; device < devices.size(); ++device)
      if (shares(sessions[device], searches)) further.push_back(devices[device]);
  }
  for (Opened& each : open_all(further)) {
    if (each->ok()) {
      sessions.push_back(**std::move(each));
    } else {
      log_debug("a device searches fewer weights at once: {}", each->status().message());
    }
  }
  return sessions;
}

}  // namespace sparsmith
