// Runs that share a GPU measure in turns: what one does there would slow down what another one times.
#pragma once

#include <chrono>
#include <string>

#include "sparsmith/status.h"

namespace sparsmith {

// A device's lock among the processes of a machine: a file in $TMPDIR (or else /tmp) that whoever measures has locked.
// The system unlocks it when its holder dies.
class DeviceTurn {
 public:
  DeviceTurn() = default;  // of no device: never waits
  // `pci_address`: "0000:1b:00"; empty for what is no GPU. Any user may lock the file. Where it cannot be opened, or is
  // a link, nobody is waited for, and the log says so.
  explicit DeviceTurn(const std::string& pci_address);
  DeviceTurn(DeviceTurn&& other) noexcept;
  DeviceTurn& operator=(DeviceTurn&& other) noexcept;
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  ~DeviceTurn();

  // Whether others are waited for at all.
  bool exists() const { return file_ >= 0; }

  // How long a wait may take before the log says who has the device, and before it is given up: no call to a worker
  // takes longer than two minutes.
  void set_patience(std::chrono::milliseconds report_after, std::chrono::milliseconds give_up_after) {
    report_after_ = report_after;
    give_up_after_ = give_up_after;
  }

  // Waits until nobody else has the device, and has it while it lives.
  class Hold {
   public:
    explicit Hold(DeviceTurn& turn);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

    // Ok, or why the wait was given up: who has the device. The turn is of no more use then.
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
