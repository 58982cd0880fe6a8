// Runs that share a GPU measure in turns: what one does there would slow down what another one times.
#pragma once

#include <string>

namespace sparsmith {

// A device's lock among the processes of a machine: a file in $TMPDIR (or else /tmp) that whoever measures has locked.
// The system unlocks it when its holder dies.
class DeviceTurn {
 public:
  DeviceTurn() = default;  // of no device: never waits
  // `pci_address`: "0000:1b:00"; empty for what is no GPU. Where the file cannot be opened (processes of several users
  // need one that both may write), nobody is waited for, and the log says so.
  explicit DeviceTurn(const std::string& pci_address);
  DeviceTurn(DeviceTurn&& other) noexcept;
  DeviceTurn& operator=(DeviceTurn&& other) noexcept;
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  ~DeviceTurn();

  // Whether others are waited for at all.
  bool exists() const { return file_ >= 0; }

  // Waits until nobody else has the device, and has it while it lives.
  class Hold {
   public:
    explicit Hold(DeviceTurn& turn);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

   private:
    int file_;
  };

 private:
  int file_ = -1;
};

}  // namespace sparsmith
