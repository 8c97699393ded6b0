#include "bench/report/bandwidth_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace penstock::bench {
namespace {

constexpr double kWidth = 900;
constexpr double kPanelHeight = 240;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 40;
constexpr int kTicks = 4;
constexpr std::size_t kPointsMax = 300;
constexpr std::array kColours = {"#1b6ca8", "#d1495b", "#2e933c", "#8a5cb8", "#b8860b", "#7a7a7a"};

struct Point {
  double seconds;
  double mb_per_second;
};

struct Curve {
  std::string label;
  std::uint32_t group;
  std::vector<Point> points;
};

// As many samples together as make no more points than can be told apart.
Curve curve_of(const JobResult& result, const char* direction, const DirectionResult& moved) {
  Curve curve{fmt::format("{}: {}", result.name, direction), result.group, {}};
  const std::size_t together = moved.bandwidth.size() / kPointsMax + 1;
  double begin = 0;
  double bytes = 0;
  for (std::size_t index = 0; index < moved.bandwidth.size(); ++index) {
    const BandwidthSample& sample = moved.bandwidth[index];
    bytes += static_cast<double>(sample.bytes);
    const double seconds = static_cast<double>(sample.at_ns) * 1e-9;
    const bool last = index + 1 == moved.bandwidth.size();
    if ((index + 1) % together != 0 && !last) {
      continue;
    }
    if (seconds > begin) {
      curve.points.push_back({(begin + seconds) / 2, bytes * 1e-6 / (seconds - begin)});
    }
    begin = seconds;
    bytes = 0;
  }
  return curve;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor,
                     escaped(text));
}

// The axes of one group and its curves, `top` below the upper edge.
std::string panel(const std::vector<const Curve*>& curves, double top) {
  double seconds = 0;
  double most = 0;
  for (const Curve* const curve : curves) {
    for (const Point& point : curve->points) {
      seconds = std::max(seconds, point.seconds);
      most = std::max(most, point.mb_per_second);
    }
  }
  seconds = std::max(seconds, 1e-9);
  most = std::max(most * 1.05, 1e-9);
  const double width = kWidth - kLeft - kRight;
  const double height = kPanelHeight - kTop - kBottom;
  const double floor = top + kPanelHeight - kBottom;
  std::string svg = text_at(kLeft, top + 16, "start",
                            fmt::format("group {}: MB/s over seconds", curves.front()->group));
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double share = static_cast<double>(tick) / kTicks;
    const double y = floor - share * height;
    svg += fmt::format("<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd'/>\n", kLeft,
                       kWidth - kRight, y, y);
    svg += text_at(kLeft - 6, y + 4, "end", fmt::format("{:.0f}", share * most));
    svg += text_at(kLeft + share * width, floor + 16, "middle",
                   fmt::format("{:.3g}", share * seconds));
  }
  double legend = kLeft + 240;
  for (std::size_t index = 0; index < curves.size(); ++index) {
    const char* const colour = kColours[index % kColours.size()];
    std::string points;
    for (const Point& point : curves[index]->points) {
      points += fmt::format("{:.1f},{:.1f} ", kLeft + point.seconds / seconds * width,
                            floor - point.mb_per_second / most * height);
    }
    svg += fmt::format("<polyline fill='none' stroke='{}' stroke-width='1.5' points='{}'/>\n",
                       colour, points);
    svg += fmt::format("<g fill='{}'>{}</g>\n", colour,
                       text_at(legend, top + 16, "start", curves[index]->label));
    legend += 20 + 7 * static_cast<double>(curves[index]->label.size());
  }
  return svg;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string bandwidth_chart(const Report& report) {
  std::vector<Curve> curves;
  for (const JobResult& result : report.results) {
    for (const auto& [name, moved] :
         {std::pair{"read", &result.read}, std::pair{"write", &result.write}}) {
      if (!moved->bandwidth.empty()) {
        curves.push_back(curve_of(result, name, *moved));
      }
    }
  }
  std::string panels;
  double top = 0;
  for (std::size_t first = 0; first < curves.size();) {
    std::vector<const Curve*> group;
    const std::uint32_t number = curves[first].group;
    for (; first < curves.size() && curves[first].group == number; ++first) {
      group.push_back(&curves[first]);
    }
    panels += panel(group, top);
    top += kPanelHeight;
  }
  if (curves.empty()) {
    panels = text_at(kLeft, kTop, "start", "nothing moved that could be drawn");
    top = kPanelHeight / 2;
  }
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' "
      "fill='white'/>\n{2}</svg>\n",
      kWidth, top, panels);
}

}  // namespace penstock::bench
