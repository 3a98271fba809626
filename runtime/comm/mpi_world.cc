#include "runtime/comm/mpi_world.h"

#include <mpi.h>  // OMPI_SKIP_MPICXX is defined: the C interface alone

#include <algorithm>
#include <array>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/comm/ends.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define MESHSEAL_LEAK_SANITIZER 1
#endif
#endif

namespace meshseal::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// How long a wait goes on after the process was asked to end: a peer may have been asked, too, and be about to come.
constexpr std::chrono::milliseconds kStopGrace{300};
// How long a rank that has failed waits for the others to leave, too.
constexpr std::chrono::milliseconds kLeaveGrace{300};
// How long MPI may take to end the job of a rank that has failed; then the rank ends alone, and its launcher the
// others.
constexpr std::chrono::milliseconds kAbortDeadline{1'000};
// How much later than the rank that failed first the others end the job, whose exit code is that of the first.
constexpr std::chrono::milliseconds kFirstGrace{150};
// The same where all have ended MPI together, which lets each of them go at a moment of its own.
constexpr std::chrono::milliseconds kFinalizedGrace{1'000};
// Ranks that end without MPI do so one after the other, in that grace: mpirun 4.1 may crash where several go at once.
constexpr std::chrono::milliseconds kEndTurn{100};
constexpr uint32_t kEndTurns = 9;

// What a rank tells the others besides the messages of its groups.
struct Note {
  std::array<char, 496> text{};  // ends with a 0
  uint32_t rank = 0;
  Channel channel = Channel::kWorld;  // of an end: whose; kBetweenScopes: it has come to a meeting
  bool failed = false;                // of a scope that is done
  std::array<uint8_t, 2> unused{};
  uint64_t meeting = 0;
};
static_assert(sizeof(Note) == 512);

// All of it goes over MPI_COMM_WORLD: another communicator would have to be made by all ranks together, in a call that
// waits for ever for one that is lost. Tags keep it apart, below the least bound that MPI promises, 32767.
constexpr int kLeftTag = 0;  // a rank ends the job
constexpr int kDoneTag = 1;  // nobody need wait any more for the ranks of the scope `meeting`
constexpr uint32_t kLastConnection = 5'000;

int MessageTag(uint32_t connection, Channel channel) {
  return static_cast<int>(connection * (kChannels + 1)) + static_cast<int>(channel);
}
int NoteTag(uint32_t connection) { return static_cast<int>(connection * (kChannels + 1) + kChannels); }

absl::Status CheckCall(int error, const char* call) {
  if (error == MPI_SUCCESS) return absl::OkStatus();
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  return Refuse(Reason::kPeerFailed,
                absl::StrCat(call, ": ", absl::string_view(text.data(), static_cast<size_t>(length))));
}

std::string LibraryVersion() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.data();  // Open MPI counts the 0 at its end
}

// Yields at first, then sleeps longer and longer: ranks may be more than cores.
class Patience {
 public:
  void Wait() {
    if (++turns_ < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(turns_ - 199, 100u)));
    }
  }

 private:
  unsigned turns_ = 0;
};

// Watches the calls of MPI that wait for all ranks and have no deadline of their own: its start and its end.
class CallWatch {
 public:
  CallWatch(const std::atomic<bool>* stop, std::function<void(const absl::Status&)> give_up)
      : stop_(stop), give_up_(std::move(give_up)) {}
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  ~CallWatch() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  absl::Status Start() {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      return Refuse(Reason::kOutOfMemory, "no thread to watch the start of MPI with");
    }
    return absl::OkStatus();
  }

  void Begin(const char* call, std::chrono::milliseconds deadline) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      call_ = call;
      deadline_ = deadline;
      until_ = Clock::now() + deadline;
    }
    changed_.notify_all();
  }

  // Of a call that ends the process, with `exit_code` if not by itself.
  void BeginLast(const char* call, std::chrono::milliseconds deadline, int exit_code) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      exit_code_ = exit_code;
    }
    Begin(call, deadline);
  }

  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    call_ = nullptr;
  }

 private:
  void Run() {
    constexpr std::chrono::milliseconds kLook{20};  // at `stop`, which a signal sets
    std::unique_lock<std::mutex> lock(mutex_);
    while (!over_) {
      if (call_ == nullptr) {
        changed_.wait(lock);
        continue;
      }
      changed_.wait_for(lock, kLook);
      if (call_ == nullptr) continue;
      if (exit_code_.has_value()) {
        if (Clock::now() >= until_) std::_Exit(*exit_code_);
        continue;
      }
      if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
        GiveUp(Refuse(Reason::kStopped, absl::StrCat("was asked to end while it waited for all ranks in ", call_)));
      }
      if (Clock::now() >= until_) {
        GiveUp(Refuse(Reason::kDeadline, absl::StrCat("waited ", deadline_.count(), " ms for all ranks in ", call_)));
      }
    }
  }

  [[noreturn]] void GiveUp(const absl::Status& cause) {
    if (give_up_) give_up_(cause);
    std::this_thread::sleep_for(kLeaveGrace);  // the others come to the same, and the first one's end ends them
    std::_Exit(RowOf(*ReasonOf(cause)).exit_code);
  }

  const std::atomic<bool>* stop_;
  const std::function<void(const absl::Status&)> give_up_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool over_ = false;
  const char* call_ = nullptr;
  std::optional<int> exit_code_;  // the cause has been said
  std::chrono::milliseconds deadline_{};
  Clock::time_point until_;
  std::thread thread_;
};

}  // namespace

class MpiWorld::State {
 public:
  explicit State(const StartOptions& options) : options_(options), watch_(options.stop, options.give_up) {}

  absl::Status Open() {
    MESHSEAL_RETURN_IF_ERROR(watch_.Start());
    int level = 0;
    watch_.Begin("MPI_Init_thread", options_.start_deadline);
    const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    watch_.End();
    MESHSEAL_RETURN_IF_ERROR(CheckCall(error, "MPI_Init_thread"));
    MESHSEAL_RETURN_IF_ERROR(
        CheckCall(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    if (level < MPI_THREAD_MULTIPLE) {
      return Refuse(Reason::kUsage, "this MPI cannot be called by several threads (MPI_THREAD_MULTIPLE)");
    }
    int number = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    rank_ = static_cast<uint32_t>(number);
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    size_ = static_cast<uint32_t>(number);
    SetScope(size_);
    return absl::OkStatus();
  }

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed); }

  uint32_t NextConnection() { return ++connections_; }

  // To all others, without waiting.
  void Tell(int tag, absl::string_view text, const Note& with = {}) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Note& note = told_.emplace_back(with);
    note.rank = rank_;
    text = text.substr(0, note.text.size() - 1);
    std::copy(text.begin(), text.end(), note.text.begin());
    for (uint32_t to = 0; to < size_; ++to) {
      if (to == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      if (MPI_Isend(&note, sizeof(note), MPI_BYTE, static_cast<int>(to), tag, MPI_COMM_WORLD, &request) ==
          MPI_SUCCESS) {
        MPI_Request_free(&request);  // `told_` lives as long as the process
      }
    }
  }

  // A note of any rank with that tag, if there is one.
  std::optional<Note> Heard(int tag) {
    int arrived = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    if (MPI_Improbe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &arrived, &message, &status) != MPI_SUCCESS || arrived == 0) {
      return std::nullopt;
    }
    Note note;
    if (MPI_Mrecv(&note, sizeof(note), MPI_BYTE, &message, &status) != MPI_SUCCESS) return std::nullopt;
    note.text.back() = '\0';
    return note;
  }

  void Keep(Arena memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.push_back(std::move(memory));
  }

  // The first rank that has left, if one has.
  std::optional<Note> Left() {
    const std::lock_guard<std::mutex> lock(left_mutex_);
    while (const std::optional<Note> note = Heard(kLeftTag)) left_.push_back(*note);
    if (left_.empty()) return std::nullopt;
    return left_.front();
  }

  // The scopes of the ranks, from here on.
  void SetScope(uint32_t scope) {
    const std::lock_guard<std::mutex> lock(done_mutex_);
    scope_ = scope;
    done_.assign(size_ / scope, false);
    done_[rank_ / scope] = true;  // this rank knows
  }

  // Nobody waits any more for the ranks of that rank's scope.
  void GiveUpOn(uint32_t rank) {
    {
      const std::lock_guard<std::mutex> lock(done_mutex_);
      done_[rank / scope_] = true;
      others_failed_ = true;
    }
    Tell(kDoneTag, "", {.failed = true, .meeting = rank / scope_});
  }

  void Finish(const absl::Status& status, Others others) {
    if (!status.ok() && others == Others::kEnd) return Leave(status);
    if (const absl::Status waited = AwaitScopes(status.ok()); !waited.ok()) return Leave(waited);
    if (!status.ok()) {
      if (Left().has_value()) return Leave(status);  // another ends the job
      watch_.BeginLast("MPI_Finalize", options_.end_deadline + kEndTurn * std::min(rank_, kEndTurns),
                       RowOf(ReasonOf(status).value_or(Reason::kBug)).exit_code);
    } else if (OthersFailed()) {
      // A rank that was lost with them never comes, and is their failure: this one has done all of its work. They end
      // first, as the job's exit code is that of the first that ends.
      watch_.BeginLast("MPI_Finalize", options_.end_deadline + kFinalizedGrace, EXIT_SUCCESS);
    } else {
      watch_.Begin("MPI_Finalize", options_.end_deadline);
    }
    MPI_Finalize();
    watch_.End();
    // The launcher ends the job with the exit code of the first rank that has another than 0.
    if (ReasonOf(status) == Reason::kPeerFailed) std::this_thread::sleep_for(kFinalizedGrace);
  }

 private:
  bool OthersFailed() {
    const std::lock_guard<std::mutex> lock(done_mutex_);
    return others_failed_;
  }

  // MPI ends for all ranks at once: as long as a scope has ranks that run, those of the others stay. At least one rank
  // of each scope tells when it is done; the others of its scope are then soon, or lost. Reason kStopped when the
  // process is asked to end meanwhile.
  absl::Status AwaitScopes(bool well) {
    if (scope_ == size_) return absl::OkStatus();
    Tell(kDoneTag, "", {.failed = !well, .meeting = rank_ / scope_});
    const auto all_done = [this] {
      const std::lock_guard<std::mutex> lock(done_mutex_);
      while (const std::optional<Note> note = Heard(kDoneTag)) {
        done_[note->meeting] = true;
        others_failed_ = others_failed_ || note->failed;
      }
      return std::all_of(done_.begin(), done_.end(), [](bool done) { return done; });
    };
    for (Patience patience; !all_done() && !Left().has_value(); patience.Wait()) {
      if (stopped()) return Refuse(Reason::kStopped, "was asked to end while other replicas ran");
    }
    return absl::OkStatus();
  }

  // Ends the job.
  void Leave(const absl::Status& status) {
    Tell(kLeftTag, status.message());
    Patience patience;
    for (const auto until = Clock::now() + kLeaveGrace; Clock::now() < until; patience.Wait()) {
      static_cast<void>(Left());
      if (left_.size() + 1 >= size_) break;
    }
    const Reason reason = ReasonOf(status).value_or(Reason::kBug);
    if (reason == Reason::kPeerFailed) std::this_thread::sleep_for(kFirstGrace);
    watch_.BeginLast("MPI_Abort", kAbortDeadline, RowOf(reason).exit_code);
    MPI_Abort(MPI_COMM_WORLD, RowOf(reason).exit_code);
  }

  const StartOptions options_;
  CallWatch watch_;
  uint32_t rank_ = 0;
  uint32_t size_ = 0;
  std::atomic<uint32_t> connections_{0};

  std::mutex mutex_;  // of what follows
  std::deque<Note> told_;
  std::vector<Arena> kept_;

  std::mutex left_mutex_;
  std::vector<Note> left_;

  std::mutex done_mutex_;  // of what follows
  uint32_t scope_ = 0;
  std::vector<bool> done_;  // by scope
  bool others_failed_ = false;
};

namespace {

// MPI's own failures and deadlines, and those that others tell, end one connection or a scope of it.
template <class State>
class MpiEndpoint : public Endpoint {
 public:
  MpiEndpoint(std::shared_ptr<State> state, uint32_t connection, uint32_t scope)
      : state_(std::move(state)), connection_(connection), ends_(state_->size(), scope), meetings_(state_->size()) {}

  uint32_t rank() const override { return state_->rank(); }
  uint32_t world() const override { return state_->size(); }

  absl::Status Exchange(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in,
                        std::chrono::milliseconds deadline) override {
    MESHSEAL_RETURN_IF_ERROR(Known(channel, out, in));
    absl::Status posted = Post(channel, out, in);
    if (!posted.ok()) return End(channel, posted);

    const auto until = Clock::now() + deadline;
    StopWatch asked(*state_);
    Patience patience;
    while (true) {
      int done = 0;
      statuses_.resize(requests_.size());
      const int error = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
      if (error != MPI_SUCCESS) return End(channel, WhichFailed(error));
      if (done != 0) break;
      Hear();
      MESHSEAL_RETURN_IF_ERROR(Known(channel, out, in));
      const auto now = Clock::now();
      if (now >= until) {
        return End(channel, NobodyCame(deadline, Missing()));
      }
      if (asked.IsTime(now)) return Stop(Missing());
      patience.Wait();
    }
    for (size_t i = 0; i < in_sizes_.size(); ++i) {
      int count = 0;
      MPI_Get_count(&statuses_[i], MPI_BYTE, &count);
      if (static_cast<size_t>(count) != in_sizes_[i]) {
        return End(channel, OtherSize(peers_[i], static_cast<uint64_t>(count), in_sizes_[i]));
      }
    }
    return absl::OkStatus();
  }

  void Come(uint64_t number) override {
    state_->Tell(NoteTag(connection_), "", {.channel = Channel::kBetweenScopes, .meeting = number});
  }

  absl::Status AwaitPeer(uint32_t peer, uint64_t number, std::chrono::milliseconds time) override {
    const std::array<Incoming, 1> with = {Incoming{peer, {}}};
    const auto until = Clock::now() + time;
    StopWatch asked(*state_);
    for (Patience patience;; patience.Wait()) {
      Hear();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (meetings_[peer] >= number) return absl::OkStatus();
      }
      MESHSEAL_RETURN_IF_ERROR(Known(Channel::kBetweenScopes, {}, with));
      if (asked.IsTime(Clock::now())) return Stop({peer});
      if (Clock::now() >= until) return NobodyCame(time, {peer});
    }
  }

  void GiveUpOn(uint32_t peer) override { state_->GiveUpOn(peer); }

  absl::Status Check(Channel channel) override {
    Hear();
    return Known(channel, {}, {});
  }

  void Abort(Channel channel, const absl::Status& cause) override { Add(channel, cause); }

  void Keep(Arena memory) override { state_->Keep(std::move(memory)); }

 private:
  // Of one wait: whether the process was asked to end, and that a moment ago.
  class StopWatch {
   public:
    explicit StopWatch(const State& state) : state_(state) {}
    bool IsTime(Clock::time_point now) {
      if (until_ == Clock::time_point::max() && state_.stopped()) until_ = now + kStopGrace;
      return now >= until_;
    }

   private:
    const State& state_;
    Clock::time_point until_ = Clock::time_point::max();  // until it was asked
  };

  // Ends the world, because this process was asked to end while it waited for these ranks.
  absl::Status Stop(std::vector<uint32_t> missing) {
    return End(Channel::kWorld,
               Refuse(Reason::kStopped, absl::StrCat("was asked to end while it ",
                                                     NobodyCame(kStopGrace, std::move(missing)).message())));
  }

  absl::Status Known(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ends_.For(rank(), channel, out, in);
  }

  // This rank ends what the channel's messages belong to, and tells all. False: it has ended before.
  bool Add(Channel channel, const absl::Status& cause) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!ends_.Add(rank(), channel, cause)) return false;
    }
    state_->Tell(NoteTag(connection_), cause.message(), {.channel = channel});
    return true;
  }

  // The same, and what its call returns.
  absl::Status End(Channel channel, const absl::Status& cause) {
    if (Add(channel, cause)) return cause;
    absl::Status ended = Known(channel, {}, {});
    return ended.ok() ? cause : ended;
  }

  // What other ranks have ended.
  void Hear() {
    const auto add = [this](const Note& note) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (note.channel == Channel::kBetweenScopes) {
        meetings_[note.rank] = note.meeting;
        return;
      }
      ends_.Add(note.rank, note.channel, Refuse(Reason::kPeerFailed, note.text.data()));
    };
    while (const std::optional<Note> note = state_->Heard(NoteTag(connection_))) add(*note);
    if (const std::optional<Note> note = state_->Left()) add(*note);
  }

  // What is received first, then what is sent.
  absl::Status Post(Channel channel, absl::Span<const Outgoing> out, absl::Span<const Incoming> in) {
    const int tag = MessageTag(connection_, channel);
    requests_.clear();
    peers_.clear();
    in_sizes_.clear();
    const auto size_of = [](auto bytes) { return static_cast<int>(bytes.size()); };
    for (const Incoming& message : in) {
      if (message.bytes.empty()) continue;
      if (message.bytes.size() > INT_MAX) return TooLarge(message.bytes.size());
      requests_.push_back(MPI_REQUEST_NULL);
      peers_.push_back(message.from);
      in_sizes_.push_back(message.bytes.size());
      MESHSEAL_RETURN_IF_ERROR(
          CheckCall(MPI_Irecv(message.bytes.data(), size_of(message.bytes), MPI_BYTE, static_cast<int>(message.from),
                              tag, MPI_COMM_WORLD, &requests_.back()),
                    "MPI_Irecv"));
    }
    for (const Outgoing& message : out) {
      if (message.bytes.empty()) continue;
      if (message.bytes.size() > INT_MAX) return TooLarge(message.bytes.size());
      requests_.push_back(MPI_REQUEST_NULL);
      peers_.push_back(message.to);
      MESHSEAL_RETURN_IF_ERROR(
          CheckCall(MPI_Isend(message.bytes.data(), size_of(message.bytes), MPI_BYTE, static_cast<int>(message.to), tag,
                              MPI_COMM_WORLD, &requests_.back()),
                    "MPI_Isend"));
    }
    return absl::OkStatus();
  }

  static absl::Status TooLarge(uint64_t bytes) {
    return Refuse(Reason::kLimit, absl::StrCat("a message of ", bytes, " bytes, MPI takes ", INT_MAX));
  }

  // The peers whose messages are not done.
  std::vector<uint32_t> Missing() {
    std::vector<uint32_t> ranks;
    for (size_t i = 0; i < requests_.size(); ++i) {
      int done = 0;
      MPI_Status status;
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (MPI_Request_get_status(requests_[i], &done, &status) == MPI_SUCCESS && done != 0) continue;
      ranks.push_back(peers_[i]);
    }
    return ranks;
  }

  // The peer behind an error of several messages: a longer message than was expected, or a lost connection.
  absl::Status WhichFailed(int error) const {
    for (size_t i = 0; error == MPI_ERR_IN_STATUS && i < statuses_.size(); ++i) {
      if (statuses_[i].MPI_ERROR == MPI_SUCCESS || statuses_[i].MPI_ERROR == MPI_ERR_PENDING) continue;
      return CheckCall(statuses_[i].MPI_ERROR,
                       absl::StrCat("a message ", i < in_sizes_.size() ? "from" : "to", " rank ", peers_[i]).c_str());
    }
    return CheckCall(error, "MPI_Testall");
  }

  const std::shared_ptr<State> state_;
  const uint32_t connection_;
  std::mutex mutex_;
  Ends ends_;
  std::vector<uint64_t> meetings_;     // that each rank has come to
  std::vector<MPI_Request> requests_;  // of one exchange, like what follows
  std::vector<MPI_Status> statuses_;
  std::vector<uint32_t> peers_;
  std::vector<size_t> in_sizes_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<MpiWorld>> MpiWorld::Start(const StartOptions& options) {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) return Refuse(Reason::kUsage, "MPI was started before in this process");
  const auto state = std::make_shared<State>(options);
  MESHSEAL_RETURN_IF_ERROR(state->Open());
  return std::shared_ptr<MpiWorld>(new MpiWorld(state));
}

MpiWorld::MpiWorld(std::shared_ptr<State> state) : state_(std::move(state)) {}
MpiWorld::~MpiWorld() = default;

uint32_t MpiWorld::rank() const { return state_->rank(); }
uint32_t MpiWorld::size() const { return state_->size(); }

MpiWorld::Library MpiWorld::Describe() {
  Library library;
  library.version = LibraryVersion();
  int level = MPI_THREAD_SINGLE;
#ifdef MESHSEAL_LEAK_SANITIZER
  const __lsan::ScopedDisabler open_mpi;  // its plugins leave memory behind when they are closed
#endif
  if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS) MPI_T_finalize();
  library.threads = level == MPI_THREAD_MULTIPLE     ? "multiple"
                    : level == MPI_THREAD_SERIALIZED ? "serialized"
                    : level == MPI_THREAD_FUNNELED   ? "funneled"
                                                     : "single";
  return library;
}

std::string MpiWorld::library() const { return LibraryVersion(); }

absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> MpiWorld::Connect(uint32_t world, uint32_t scope) {
  if (world != size()) {
    return Refuse(Reason::kWorldSize, absl::StrCat("its world is ", world, " ranks, ", size(), " are running"));
  }
  const uint32_t connection = state_->NextConnection();
  if (connection > kLastConnection) {
    return Refuse(Reason::kLimit, absl::StrCat("this is the ", connection, "th model of the process, at most ",
                                               kLastConnection, " can be told apart"));
  }
  state_->SetScope(scope);
  std::vector<std::unique_ptr<Endpoint>> ends;
  ends.push_back(std::make_unique<MpiEndpoint<State>>(state_, connection, scope));
  return ends;
}

void MpiWorld::Finish(const absl::Status& status, Others others) { state_->Finish(status, others); }

}  // namespace meshseal::runtime
