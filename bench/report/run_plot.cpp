#include "bench/report/run_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace penstock::bench {
namespace {

using nlohmann::json;

// More points than this are no finer on a screen.
constexpr std::size_t kPointsMax = 512;

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

struct Curve {
  std::string label;
  std::size_t colour = 0;
  const char* dash = "solid";
  std::vector<double> x;
  std::vector<double> y;

  json for_script() const {
    return {{"label", label}, {"colour", colour}, {"dash", dash}, {"x", x}, {"y", y}};
  }
};

// `value` a second; as many samples together as leave no more points than that. What
// is left at the end belongs to the stretch before it: a moment's rate would be a peak of chance.
template <class Value>
void add_rate(Curve& curve, const std::vector<Sample>& samples, Value value) {
  const std::size_t together = samples.size() / kPointsMax + 1;
  const std::uint64_t stretch_ns = samples[std::min(together, samples.size()) - 1].at_ns;
  const std::uint64_t end_ns = samples.back().at_ns;
  std::uint64_t begin = 0;
  double sum = 0;
  for (const Sample& sample : samples) {
    sum += value(sample);
    const std::uint64_t end = sample.at_ns;
    const bool is_whole = end - begin >= stretch_ns && end_ns - end >= stretch_ns;
    if (end > begin && (is_whole || end == end_ns)) {
      curve.x.push_back((seconds(begin) + seconds(end)) / 2);
      curve.y.push_back(sum / seconds(end - begin));
      begin = end;
      sum = 0;
    }
  }
}

// The most of `value`, of as many samples.
template <class Value>
void add_peak(Curve& curve, const std::vector<Sample>& samples, Value value) {
  const std::size_t together = samples.size() / kPointsMax + 1;
  std::uint64_t most = 0;
  for (std::size_t index = 0; index < samples.size(); ++index) {
    most = std::max<std::uint64_t>(most, value(samples[index]));
    if ((index + 1) % together == 0 || index + 1 == samples.size()) {
      curve.x.push_back(seconds(samples[index].at_ns));
      curve.y.push_back(mib(most));
      most = 0;
    }
  }
}

bool has_course(const JobResult* result) {
  return result->swap && !result->course.empty();
}

bool moved(const JobResult& result, std::uint64_t Sample::* bytes) {
  return std::ranges::any_of(result.course, [bytes](const Sample& one) { return one.*bytes > 0; });
}

bool has_moved(const JobResult& result) {
  return moved(result, &Sample::read_bytes) || moved(result, &Sample::write_bytes);
}

// The jobs between two stonewalls, which have one begin.
class GroupPlot {
 public:
  GroupPlot(const Report& report, std::vector<const JobResult*> results)
      : report_(report), results_(std::move(results)) {}

  json for_script() {
    json panels = json::array({bandwidth()});
    if (std::ranges::any_of(results_, has_course)) {
      panels.push_back(pinned_memory());
      panels.push_back(stalls());
    }
    return {{"title", title()}, {"x", {{"label", time_label()}}}, {"panels", panels}};
  }

 private:
  std::string title() const {
    std::string names;
    for (const JobResult* const result : results_) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", result->name);
    }
    return names;
  }

  bool is_virtual(const JobResult& result) const {
    const std::optional<SimulatedDrive>& drive = report_.jobs[result.job].simulated;
    return drive && !drive->real_time;
  }

  std::string time_label() const {
    std::set<std::string> simulated;
    bool all = true;
    for (const JobResult* const result : results_) {
      if (is_virtual(*result)) {
        simulated.insert(result->name);
      } else {
        all = false;
      }
    }
    if (all) {
      return "simulated time, s";
    }
    return simulated.empty() ? "time, s"
                             : fmt::format("time, s (simulated: {})", fmt::join(simulated, ", "));
  }

  std::string label(const char* what, const JobResult& result) const {
    return results_.size() == 1 ? what : fmt::format("{}, {}", what, result.name);
  }

  json bandwidth() {
    json curves = json::array();
    std::size_t colour = 0;
    for (const JobResult* const result : results_) {
      colours_.push_back(colour);
      for (const auto& [name, bytes] :
           {std::pair{"read", &Sample::read_bytes}, std::pair{"write", &Sample::write_bytes}}) {
        if (moved(*result, bytes)) {
          Curve curve{label(name, *result), colour++, "solid", {}, {}};
          add_rate(curve, result->course, [bytes](const Sample& sample) {
            return static_cast<double>(sample.*bytes) * 1e-6;
          });
          curves.push_back(curve.for_script());
        }
      }
    }
    return {{"label", "bandwidth, MB/s"}, {"curves", std::move(curves)}};
  }

  json pinned_memory() const {
    json curves = json::array();
    for (std::size_t index = 0; index < results_.size(); ++index) {
      const JobResult& result = *results_[index];
      if (!has_course(&result)) {
        continue;
      }
      const std::vector<Sample>& course = result.course;
      Curve live{label("in use", result), colours_[index], "solid", {}, {}};
      add_peak(live, course, [](const Sample& sample) { return sample.live_bytes; });
      curves.push_back(live.for_script());
      Curve pinned{label("pinned", result), colours_[index], "dashed", {}, {}};
      add_peak(pinned, course, [](const Sample& sample) { return sample.pinned_bytes; });
      curves.push_back(pinned.for_script());
    }
    return {{"label", "pinned memory, MiB"}, {"curves", std::move(curves)}};
  }

  json stalls() const {
    json curves = json::array();
    for (std::size_t index = 0; index < results_.size(); ++index) {
      if (has_course(results_[index])) {
        Curve curve{label("waiting", *results_[index]), colours_[index], "solid", {}, {}};
        add_rate(curve, results_[index]->course,
                 [](const Sample& sample) { return 100 * seconds(sample.stall_ns); });
        curves.push_back(curve.for_script());
      }
    }
    return {
        {"label", "waiting for\nreads, % of time"}, {"top", 105}, {"curves", std::move(curves)}};
  }

  const Report& report_;
  std::vector<const JobResult*> results_;
  std::vector<std::size_t> colours_;  // of each result, its first curve's
};

}  // namespace

std::string run_plot(const Report& report) {
  json groups = json::array();
  std::vector<const JobResult*> members;
  const auto end_group = [&] {
    if (!members.empty()) {
      groups.push_back(GroupPlot(report, std::move(members)).for_script());
    }
    members.clear();
  };
  for (const JobResult& result : report.results) {
    if (!has_moved(result)) {
      continue;
    }
    if (!members.empty() && members.back()->group != result.group) {
      end_group();
    }
    members.push_back(&result);
  }
  end_group();
  if (groups.empty()) {
    groups = {{{"title", "nothing moved that could be drawn"}, {"panels", json::array()}}};
  }
  const json picture{{"groups", std::move(groups)}};
  return picture.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace penstock::bench
