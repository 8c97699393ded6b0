#include "swap/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace penstock {
namespace {

std::shared_ptr<spdlog::logger> make_logger() {
  const char* file = std::getenv("PENSTOCK_LOG_FILE");
  std::shared_ptr<spdlog::logger> logger;
  if (file != nullptr && *file != '\0') {
    try {
      logger = std::make_shared<spdlog::logger>(
          "penstock", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
    } catch (const spdlog::spdlog_ex&) {
      // A log that cannot be written must not stop training; stderr tells.
    }
  }
  if (!logger) {
    logger = std::make_shared<spdlog::logger>("penstock",
                                              std::make_shared<spdlog::sinks::stderr_sink_mt>());
  }
  logger->set_pattern("penstock: %l: %v");
  const char* level = std::getenv("PENSTOCK_LOG_LEVEL");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
  logger->flush_on(spdlog::level::warn);
  return logger;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger();
  return *instance;
}

}  // namespace

void log_warning(const std::string& sentence) {
  logger().warn(sentence);
}
void log_info(const std::string& sentence) {
  logger().info(sentence);
}

}  // namespace penstock
