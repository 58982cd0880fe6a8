// Processes that share a GPU measure in turns, since work of one would slow down what another one times.
#pragma once

#include <chrono>
#include <string>

#include "sparsmith/status.h"

namespace sparsmith {

// A device's lock among the processes of a machine: a file in $TMPDIR, or else /tmp. The system unlocks the file when
// its holder dies.
class DeviceTurn {
 public:
  DeviceTurn() = default;  // of no device: never waits
  // `pci_address`: "0000:1b:00"; empty: no GPU. Any user may lock the file. If the file cannot be opened or is a link,
  // there is no waiting, and the log says so.
  explicit DeviceTurn(const std::string& pci_address);
  DeviceTurn(DeviceTurn&& other) noexcept;
  DeviceTurn& operator=(DeviceTurn&& other) noexcept;
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  ~DeviceTurn();

  // Whether it waits for others at all.
  bool exists() const { return file_ >= 0; }

  // After the first time the log names the process that has the device; after the second the wait is given up. No call
  // to a worker takes longer than two minutes.
  void set_patience(std::chrono::milliseconds report_after, std::chrono::milliseconds give_up_after) {
    report_after_ = report_after;
    give_up_after_ = give_up_after;
  }

  // Waits for the device, and holds it during its lifetime.
  class Hold {
   public:
    explicit Hold(DeviceTurn& turn);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

    // Ok, or why the wait was given up, with the process that has the device.
    const Status& status() const { return status_; }

   private:
    int file_;
    Status status_;
  };

 private:
  int file_ = -1;
  std::string path_;
  std::chrono::milliseconds report_after_{30'000};
  std::chrono::milliseconds give_up_after_{600'000};
};

}  // namespace sparsmith
