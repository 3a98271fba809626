// Where the ranks of a world meet: a file in memory without a name, which threads and processes of one host share. It
// goes when the last process that has it ends, in whatever way. Nothing in it is locked: a process that is killed or
// stopped leaves the others waiting, and no more than that.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_NCCL_MEETING_H_
#define MESHSEAL_TESTS_FAKE_CUDA_NCCL_MEETING_H_

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace fake_nccl {

inline constexpr size_t kMostRanks = 16;

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kReceive };

// What one rank asks for.
struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;  // this process's, as `receive`
  void* receive = nullptr;
  size_t count = 0;  // as the call's
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;  // of AllReduce and ReduceScatter
  int peer = 0;                     // of Send and Receive; of Broadcast its root

  bool is_point_to_point() const { return kind == Kind::kSend || kind == Kind::kReceive; }
  // "AllReduce of 8 float32 (sum)"
  std::string Text() const;
};
static_assert(std::is_trivially_copyable_v<Operation>);

// Written by its rank alone. Counts are raised after what they count was written.
struct RankBoard {
  std::atomic<int32_t> device;  // its number + 1; 0: the rank has not come
  std::atomic<bool> left;       // finalised, destroyed, aborted
  std::atomic<uint64_t> windows;
  std::atomic<uint64_t> posted;  // collectives, of which this rank's part lies in the file
  std::atomic<uint64_t> taken;   // collectives, of which this rank has its result
  Operation last;                // posted
};

// Of one sender and one receiver.
struct Mailbox {
  std::atomic<uint64_t> sent;
  std::atomic<uint64_t> awaited;
  std::atomic<uint64_t> received;
  Operation last_sent;
  Operation last_awaited;
};

struct MeetingBoard {
  std::atomic<uint32_t> size;  // of the world, as the first rank says; 0: nobody has come
  std::atomic<bool> broken;    // ranks that came twice, or for another size: it never gets complete
  std::atomic<uint64_t> told;  // the last collective of which it was said that ranks disagree
  std::array<RankBoard, kMostRanks> ranks;
  std::array<std::array<Mailbox, kMostRanks>, kMostRanks> boxes;  // by sender, then receiver
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// By which other processes find it: a unique id's beginning.
struct MeetingName {
  uint64_t number = 0;  // from 1, of those that the process made
  int32_t process = 0;
  int32_t file = -1;  // in that process
};

class Meeting {
 public:
  // A new one. Null: the system gives none.
  static std::unique_ptr<Meeting> Make();
  // The one that another process has made. Null: that process has ended or is not ours.
  static std::unique_ptr<Meeting> Of(const MeetingName& name);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int file() const { return file_; }
  MeetingBoard& board() const { return *board_; }

  // What a rank posted last, and what was sent last.
  void WritePart(size_t rank, const void* data, size_t bytes) const { Write(1 + rank, data, bytes); }
  std::vector<std::byte> ReadPart(size_t rank, size_t bytes) const { return Read(1 + rank, bytes); }
  void WriteMessage(size_t from, size_t to, const void* data, size_t bytes) const {
    Write(1 + kMostRanks + from * kMostRanks + to, data, bytes);
  }
  std::vector<std::byte> ReadMessage(size_t from, size_t to, size_t bytes) const {
    return Read(1 + kMostRanks + from * kMostRanks + to, bytes);
  }

 private:
  Meeting(int file, MeetingBoard* board) : file_(file), board_(board) {}
  static std::unique_ptr<Meeting> Map(int file);
  void Write(size_t place, const void* data, size_t bytes) const;
  std::vector<std::byte> Read(size_t place, size_t bytes) const;

  const int file_;
  MeetingBoard* const board_;
};

}  // namespace fake_nccl

#endif  // MESHSEAL_TESTS_FAKE_CUDA_NCCL_MEETING_H_
