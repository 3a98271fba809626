#include "schema/simulate/calibration.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/ordered_json.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal {
namespace {

constexpr size_t kPlanIdDigits = 64;

// Reads the fields of one line; the first that is not as expected is kept.
class Line {
 public:
  Line(absl::string_view file, size_t number, const Json& json) : file_(file), number_(number), json_(json) {}

  const absl::Status& status() const { return status_; }

  // Finite and above 0.
  double Positive(const char* field) { return PositiveOf(json_, field, field); }

  double PositiveIn(const char* object, const char* field) {
    const Json* inner = Find(json_, object);
    return PositiveOf(inner == nullptr ? Json() : *inner, field, absl::StrCat(object, ".", field));
  }

  uint32_t Whole(const char* field) {
    const Json* value = Find(json_, field);
    if (value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= UINT32_MAX) {
      return static_cast<uint32_t>(value->get<uint64_t>());
    }
    Fail(field, "a whole number");
    return 0;
  }

  std::string Text(const char* field) {
    const Json* value = Find(json_, field);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    Fail(field, "a text");
    return "";
  }

  // Whether there is an object; null says that there is none.
  bool Has(const char* object) {
    const Json* value = Find(json_, object);
    if (value == nullptr || !(value->is_object() || value->is_null())) Fail(object, "an object, or null");
    return value != nullptr && value->is_object();
  }

  void Fail(const std::string& field, const char* expected) {
    if (!status_.ok()) return;
    status_ =
        Refuse(Reason::kUsage, absl::StrCat(std::string(file_), ":", number_, ": ", field, ", expected ", expected));
  }

 private:
  static const Json* Find(const Json& json, const char* field) {
    if (!json.is_object()) return nullptr;
    const auto found = json.find(field);
    return found == json.end() ? nullptr : &*found;
  }

  double PositiveOf(const Json& json, const char* field, const std::string& name) {
    const Json* value = Find(json, field);
    if (value != nullptr && value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > 0) {
      return value->get<double>();
    }
    Fail(name, "a number above 0");
    return 1;
  }

  const absl::string_view file_;
  const size_t number_;
  const Json& json_;
  absl::Status status_;
};

struct CollectivePoint {
  double bytes = 0;
  double seconds = 0;
};

// Nothing where all points have one size, or the line does not rise.
std::optional<LinkRates> FitLink(const std::vector<CollectivePoint>& points) {
  double bytes = 0;
  double seconds = 0;
  for (const CollectivePoint& point : points) {
    bytes += point.bytes;
    seconds += point.seconds;
  }
  const auto count = static_cast<double>(points.size());
  bytes /= count;
  seconds /= count;
  double together = 0;
  double spread = 0;
  for (const CollectivePoint& point : points) {
    together += (point.bytes - bytes) * (point.seconds - seconds);
    spread += (point.bytes - bytes) * (point.bytes - bytes);
  }
  if (!(spread > 0) || !(together > 0)) return std::nullopt;
  const double per_byte = together / spread;
  return LinkRates{std::max(0.0, seconds - per_byte * bytes), 1 / per_byte};
}

}  // namespace

absl::StatusOr<Calibration> ParseCalibration(absl::string_view file, absl::string_view text) {
  Calibration calibration;
  std::vector<CollectivePoint> points;
  std::set<std::string> backends;
  size_t number = 0;
  for (const absl::string_view row : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(row).empty()) continue;
    const Json json = Json::parse(row.begin(), row.end(), nullptr, false);
    Line line(file, number, json);
    if (!json.is_object()) line.Fail("the line", "one JSON object");
    if (line.Whole("version") != kBenchLineVersion) line.Fail("version", "1");
    MeasuredCall call;
    call.plan = line.Text("plan");
    if (call.plan.size() != kPlanIdDigits) line.Fail("plan", "a plan id of 64 digits");
    const std::optional<Phase> phase = TermOf<Phase>(line.Text("phase"));
    if (!phase.has_value()) line.Fail("phase", "decode or prefill");
    call.phase = phase.value_or(Phase::kInvalid);
    call.layer = line.Whole("layer");
    call.tokens = line.Whole("tokens");
    if (call.tokens == 0) line.Fail("tokens", "a number above 0");
    call.seconds = line.Positive("seconds");
    backends.insert(line.Text("backend"));
    const double busy = line.PositiveIn("slowest_rank", "seconds");
    const double bytes = line.PositiveIn("slowest_rank", "weight_bytes") / busy;
    const double operations = line.PositiveIn("slowest_rank", "operations") / busy;
    if (line.Has("collective")) {
      points.push_back({line.PositiveIn("collective", "bytes"), line.PositiveIn("collective", "seconds")});
    }
    if (backends.size() > 1) line.Fail("backend", "the same on every line");
    MESHSEAL_RETURN_IF_ERROR(line.status());
    calibration.rates.bytes = std::max(calibration.rates.bytes.value_or(0), bytes);
    calibration.rates.operations = std::max(calibration.rates.operations.value_or(0), operations);
    ++calibration.lines;
    calibration.calls.push_back(std::move(call));
  }
  if (calibration.lines == 0) {
    return Refuse(Reason::kUsage, absl::StrCat(std::string(file), ": no line of a bench"));
  }
  calibration.collective_lines = static_cast<uint32_t>(points.size());
  if (!points.empty()) calibration.rates.link = FitLink(points);
  return calibration;
}

}  // namespace meshseal
