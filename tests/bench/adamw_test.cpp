#include "bench/workload/swap/adamw.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace penstock {
namespace {

struct States {
  std::vector<float> master;
  std::vector<float> exp_avg;
  std::vector<float> exp_avg_sq;

  AdamWState with(std::span<const float> gradient, std::size_t first, std::size_t count) {
    return {std::span(master).subspan(first, count), std::span(exp_avg).subspan(first, count),
            std::span(exp_avg_sq).subspan(first, count), gradient.subspan(first, count)};
  }
};

States random_states(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  States states{std::vector<float>(count), std::vector<float>(count), std::vector<float>(count)};
  for (float& value : states.master) {
    value = normal(random);
  }
  return states;
}

std::vector<float> random_gradient(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0F, 0.1F);
  std::vector<float> gradient(count);
  for (float& value : gradient) {
    value = normal(random);
  }
  return gradient;
}

void expect_near(std::span<const float> found, std::span<const double> expected, double relative,
                 double absolute = 1e-12) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], std::abs(expected[i]) * relative + absolute) << i;
  }
}

TEST(AdamW, AgreesWithTorch) {
  // torch 2.13 (CPU): torch.optim.AdamW(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1),
  // five steps with gradients [0.1*t, -0.02, 1.5-t, 0, 1e-4*t]. It orders its operations otherwise,
  // so that the last bits differ, and computes 1 - beta2 in double where cpu_adam and we do in
  // float: for 0.999 that is 1.3e-5 of exp_avg_sq, hence 6.5e-6 of each step of 1e-2 of a master.
  States states{{1.0F, -2.0F, 0.5F, 3.0F, 1e-3F}, std::vector<float>(5), std::vector<float>(5)};
  const AdamW adam({.learning_rate = 1e-2, .weight_decay = 0.1});
  for (std::uint64_t t = 1; t <= 5; ++t) {
    const auto time = static_cast<float>(t);
    const std::array<float, 5> gradient{0.1F * time, -0.02F, 1.5F - time, 0.0F, 1e-4F * time};
    adam.update(states.with(gradient, 0, 5), t);
  }
  const std::array master{0.9465993642807007, -1.9401201009750366, 0.5098279118537903,
                          2.985030174255371, -0.047412991523742676};
  const std::array exp_avg{0.13144099712371826, -0.008190199732780457, -0.7001450061798096, 0.0,
                           0.0001314410037593916};
  const std::array exp_avg_sq{0.0005495003424584866, 1.996004129978246e-06, 0.021237505599856377,
                              0.0, 5.495003341238203e-10};
  // A master is rounded twice a step, by 2^-24 of itself at most.
  expect_near(states.master, master, 10 * 5.97e-8, 5 * 1e-2 * 6.5e-6);
  expect_near(states.exp_avg, exp_avg, 1e-6);
  expect_near(states.exp_avg_sq, exp_avg_sq, 1.4e-5);
}

TEST(AdamW, AgreesWithItsFormulasInDouble) {
  constexpr std::size_t kCount = 1000;
  constexpr std::uint64_t kSteps = 20;
  std::mt19937 random(5);
  States states = random_states(kCount, random);
  std::vector<double> p(states.master.begin(), states.master.end());
  std::vector<double> m(kCount);
  std::vector<double> v(kCount);
  const AdamWOptions options;
  const AdamW adam(options);
  for (std::uint64_t t = 1; t <= kSteps; ++t) {
    const std::vector<float> gradient = random_gradient(kCount, random);
    adam.update(states.with(gradient, 0, kCount), t);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double g = gradient[i];
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(options.beta1, static_cast<double>(t)));
      const double v_hat = v[i] / (1 - std::pow(options.beta2, static_cast<double>(t)));
      p[i] -= options.learning_rate * options.weight_decay * p[i];
      p[i] -= options.learning_rate * m_hat / (std::sqrt(v_hat) + options.epsilon);
    }
  }
  // Twenty steps in fp32 against double: a few units in the last place of a master around 1.
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(states.master[i], p[i], 4e-6) << i;
  }
}

TEST(AdamW, CutAnywhereGivesTheSameBits) {
  constexpr std::size_t kCount = 1003;
  std::mt19937 random(6);
  States whole = random_states(kCount, random);
  States cut = whole;
  const AdamW adam({});
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = random_gradient(kCount, random);
    adam.update(whole.with(gradient, 0, kCount), t);
    for (std::size_t at = 0; at < kCount; at += 17) {
      adam.update(cut.with(gradient, at, std::min<std::size_t>(17, kCount - at)), t);
    }
  }
  EXPECT_EQ(std::memcmp(whole.master.data(), cut.master.data(), kCount * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(whole.exp_avg_sq.data(), cut.exp_avg_sq.data(), kCount * sizeof(float)), 0);
}

}  // namespace
}  // namespace penstock
