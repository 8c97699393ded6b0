#include "swap/update/adam.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "swap/update/stretch.h"
#include "tests/update/step_numbers.h"

namespace penstock {
namespace {

struct States {
  std::vector<float> master;
  std::vector<float> exp_avg;
  std::vector<float> exp_avg_sq;

  AdamState with(std::span<const float> gradient, std::size_t first, std::size_t count) {
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

/// The hash after each of six steps: consecutive ones, a jump, other betas without correction.
std::array<std::uint64_t, 6> hashes_of_steps(bool decoupled, float weight_decay) {
  constexpr std::size_t kCount = 195;  // whole vectors of any width, and three more
  States states{std::vector<float>(kCount), std::vector<float>(kCount), std::vector<float>(kCount)};
  for (std::size_t i = 0; i < kCount; ++i) {
    states.master[i] = fraction(i * 37, 101, 50, 64.0F);
  }
  Adam adam;
  AdamOptions options{.weight_decay = weight_decay, .decoupled_decay = decoupled};
  std::array<std::uint64_t, 6> hashes{};
  std::size_t number = 0;
  for (const std::size_t t : {1U, 2U, 3U, 7U, 8U, 9U}) {
    if (t == 9) {
      options.beta1 = 0.8F;
      options.beta2 = 0.99F;
      options.bias_correction = false;
    }
    std::vector<float> gradient(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      gradient[i] = fraction(i * 53 + t * 29, 97, 48, 256.0F);
    }
    adam.step(t, options).update(states.with(gradient, 0, kCount));
    hashes[number++] = hash_of_bits({&states.master, &states.exp_avg, &states.exp_avg_sq});
  }
  return hashes;
}

// Made by DeepSpeed 0.19.8's cpu_adam op, compiled by g++ 12 for AVX2, on the same numbers.
TEST(Adam, EqualsTheCompiledOpToTheLastBit) {
  using Hashes = std::array<std::uint64_t, 6>;
  const Hashes without_decay{0xdf034aaab958a697, 0x4d6951cbd11fe52b, 0x6b9ff3c2a30bc9b,
                             0xaceff36f3a75198d, 0xdb70e82c16feb709, 0x67500db80c0ee1fe};
  EXPECT_EQ(hashes_of_steps(true, 0.0F), without_decay);
  EXPECT_EQ(hashes_of_steps(false, 0.0F), without_decay);
  EXPECT_EQ(hashes_of_steps(true, 0.01F),
            (Hashes{0x2d4773cbeeff40b6, 0x2b089a1bda8b08b4, 0x36bb702a4fc815d4, 0xcdf9fa04d356f9a4,
                    0x3034963263e409b5, 0x3f926c996c486253}));
  EXPECT_EQ(hashes_of_steps(false, 0.01F),
            (Hashes{0xe7389d2deac2a6eb, 0xf65dbe0c94dfcade, 0x220e690f6826434d, 0x64860ff8ced538f8,
                    0xdb806b1c625d47e7, 0xf3941d47fdc43da4}));
}

TEST(Adam, AgreesWithTorch) {
  // torch 2.13 (CPU): torch.optim.AdamW(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1),
  // five steps with gradients [0.1*t, -0.02, 1.5-t, 0, 1e-4*t]. It orders its operations otherwise,
  // so that the last bits differ, and computes 1 - beta2 in double where cpu_adam and we do in
  // float: for 0.999 that is 1.3e-5 of exp_avg_sq, hence 6.5e-6 of each step of 1e-2 of a master.
  States states{{1.0F, -2.0F, 0.5F, 3.0F, 1e-3F}, std::vector<float>(5), std::vector<float>(5)};
  const AdamOptions options{.learning_rate = 1e-2F, .weight_decay = 0.1F};
  Adam adam;
  for (std::uint64_t t = 1; t <= 5; ++t) {
    const auto time = static_cast<float>(t);
    const std::array<float, 5> gradient{0.1F * time, -0.02F, 1.5F - time, 0.0F, 1e-4F * time};
    adam.step(t, options).update(states.with(gradient, 0, 5));
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

TEST(Adam, AgreesWithItsFormulasInDouble) {
  constexpr std::size_t kCount = 1000;
  constexpr std::uint64_t kSteps = 20;
  std::mt19937 random(5);
  States states = random_states(kCount, random);
  std::vector<double> p(states.master.begin(), states.master.end());
  std::vector<double> m(kCount);
  std::vector<double> v(kCount);
  const AdamOptions options;
  Adam adam;
  for (std::uint64_t t = 1; t <= kSteps; ++t) {
    const std::vector<float> gradient = random_gradient(kCount, random);
    adam.step(t, options).update(states.with(gradient, 0, kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      const double g = gradient[i];
      const double beta1 = options.beta1;
      const double beta2 = options.beta2;
      const double rate = options.learning_rate;
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(beta1, static_cast<double>(t)));
      const double v_hat = v[i] / (1 - std::pow(beta2, static_cast<double>(t)));
      p[i] -= rate * static_cast<double>(options.weight_decay) * p[i];
      p[i] -= rate * m_hat / (std::sqrt(v_hat) + static_cast<double>(options.epsilon));
    }
  }
  // Twenty steps in fp32 against double: a few units in the last place of a master around 1.
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(states.master[i], p[i], 4e-6) << i;
  }
}

TEST(Adam, CutIntoStretchesGivesTheSameBits) {
  constexpr std::size_t kCount = 1003;
  std::mt19937 random(6);
  States whole = random_states(kCount, random);
  States cut = whole;
  Adam adam;
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = random_gradient(kCount, random);
    const AdamStep step = adam.step(t, {});
    step.update(whole.with(gradient, 0, kCount));
    for (std::size_t at = 0; at < kCount; at += kCutElements) {
      step.update(cut.with(gradient, at, std::min(kCutElements, kCount - at)));
    }
  }
  EXPECT_EQ(std::memcmp(whole.master.data(), cut.master.data(), kCount * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(whole.exp_avg_sq.data(), cut.exp_avg_sq.data(), kCount * sizeof(float)), 0);
}

}  // namespace
}  // namespace penstock
