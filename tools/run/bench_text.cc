#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schema/byte_text.h"
#include "schema/format_text.h"
#include "tools/run/bench.h"

namespace meshseal::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLineVersion = 1;  // of jsonl; calibration.h reads it

double PerSecond(uint64_t things, double seconds) { return static_cast<double>(things) / seconds; }

Json JsonOf(const std::optional<BenchCollective>& collective) {
  if (!collective.has_value()) return {};
  return {{"rank", collective->rank},
          {"calls", collective->calls},
          {"bytes", collective->bytes},
          {"seconds", collective->seconds}};
}

// "3.0 KiB in 12.5 us", "2 x 3.0 KiB in 12.5 us"
std::string CollectiveText(const std::optional<BenchCollective>& collective) {
  if (!collective.has_value()) return "-";
  return absl::StrCat(collective->calls > 1 ? absl::StrCat(collective->calls, " x ") : "",
                      ByteText(static_cast<uint64_t>(collective->bytes)),
                      FormatText(" in %.1f us", collective->seconds * 1e6));
}

Json MachineJson(const BenchHead& head) {
  Json json = {
      {"processor", head.machine.processor}, {"cores", head.machine.cores}, {"cache_bytes", head.machine.cache_bytes}};
  if (!head.limits.has_value()) return json;
  json["threads"] = head.limits->threads;
  json["read_bytes_per_second"] = head.limits->read_bytes_per_second;
  json["operations_per_second"] = head.limits->operations_per_second;
  return json;
}

// "with 4 threads at most 20.00 GB/s read from memory and 8.00 GFLOP/s in float32"
std::string LimitsText(const std::optional<MachineLimits>& limits) {
  if (!limits.has_value()) return "limits of devices are not measured";
  return absl::StrCat("with ", limits->threads, limits->threads == 1 ? " thread" : " threads", " at most ",
                      FormatText("%.2f GB/s read from memory and %.2f GFLOP/s in float32",
                                 limits->read_bytes_per_second * 1e-9, limits->operations_per_second * 1e-9));
}

Json JsonOf(const BenchHead& head, const BenchRow& row) {
  return {{"version", kLineVersion},
          {"plan", head.plan_id},
          {"made_by", absl::StrCat("meshseal ", head.version)},
          {"backend", head.backend},
          {"emulated", head.emulated},
          {"ranks", head.ranks},
          {"phase", WordOf(row.phase)},
          {"layer", row.layer},
          {"tokens", row.tokens},
          {"repeats", row.repeats},
          {"seconds", row.median},
          {"least_seconds", row.least},
          {"most_seconds", row.most},
          {"tokens_per_second", PerSecond(row.tokens, row.median)},
          {"weight_bytes", row.weight_bytes},
          {"weight_bytes_per_second", PerSecond(row.weight_bytes, row.median)},
          {"operations", row.operations},
          {"operations_per_second", PerSecond(row.operations, row.median)},
          {"share_of_limit", row.share.has_value() ? Json(*row.share) : Json()},
          {"slowest_rank",
           {{"rank", row.slowest_rank},
            {"seconds", row.rank_seconds},
            {"weight_bytes", row.rank_weight_bytes},
            {"operations", row.rank_operations}}},
          {"waited_seconds", row.waited},
          {"collective", JsonOf(row.collective)},
          {"wrong", row.wrong},
          {"machine", MachineJson(head)}};
}

}  // namespace

std::string BenchHeadText(const BenchHead& head, absl::string_view format) {
  if (format == "jsonl") return "";
  if (format == "csv") {
    return "phase,layer,tokens,seconds,least_seconds,most_seconds,tokens_per_second,weight_bytes_per_second,"
           "operations_per_second,share_of_limit,collectives,collective_bytes,collective_seconds,waited_seconds,"
           "wrong\n";
  }
  return absl::StrCat("plan ", head.plan_id, ", ", head.ranks, head.ranks == 1 ? " rank" : " ranks", " over ",
                      head.backend, head.emulated ? ", EMULATED" : "", "; meshseal ", head.version,
                      "\nmachine: ", head.machine.processor.empty() ? "unknown processor" : head.machine.processor,
                      ", ", head.machine.cores, " cores; ", LimitsText(head.limits),
                      "\n\n| phase | layer | tokens | ms a call | spread | tok/s | GB/s | GFLOP/s | of limit | "
                      "collective | wait | #wrong |\n"
                      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
}

std::string BenchRowText(const BenchHead& head, const BenchRow& row, absl::string_view format) {
  if (format == "jsonl") {
    return absl::StrCat(JsonOf(head, row).dump(-1, ' ', false, Json::error_handler_t::replace), "\n");
  }
  const double tokens = PerSecond(row.tokens, row.median);
  const double bytes = PerSecond(row.weight_bytes, row.median);
  const double operations = PerSecond(row.operations, row.median);
  if (format == "csv") {
    const BenchCollective collective = row.collective.value_or(BenchCollective{});
    const std::string share = row.share.has_value() ? FormatText("%.6g", *row.share) : "";
    return FormatText("%s,%u,%u,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%s,%u,%.9g,%.9g,%.9g,%u\n", WordOf(row.phase), row.layer,
                      row.tokens, row.median, row.least, row.most, tokens, bytes, operations, share, collective.calls,
                      collective.bytes, collective.seconds, row.waited, row.wrong);
  }
  const std::string waited = row.collective.has_value() ? FormatText("%.1f us", row.waited * 1e6) : "-";
  const std::string share = row.share.has_value() ? FormatText("%.1f %%", *row.share * 100) : "-";
  return FormatText("| %s | %u | %u | %.3f | %.3f-%.3f | %.4g | %.3g | %.3g | %s | %s | %s | %u |\n", WordOf(row.phase),
                    row.layer, row.tokens, row.median * 1e3, row.least * 1e3, row.most * 1e3, tokens, bytes * 1e-9,
                    operations * 1e-9, share, CollectiveText(row.collective), waited, row.wrong);
}

}  // namespace meshseal::tools
