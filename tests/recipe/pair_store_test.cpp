#include "bespoke/recipe/pair_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/model/function_model.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/distill_model.h"
#include "refusal.h"
#include "support.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

namespace fs = std::filesystem;

class PairStore : public ::testing::Test {
 protected:
  PairStore() {
    plan_.owner.model = {{"name", "mixture"}, {"weights_sha256", "aa"}};
    plan_.owner.guidance = 1;
    plan_.conditions = "class in turn";
    plan_.train = {10, 3};
    plan_.validation = {5, 4};
    plan_.shard_size = 4;
  }

  static ModelPtr model(torch::ScalarType dtype = torch::kFloat) {
    const auto plain =
        mixture_model(testing::small_mixture(6, 4, 3), vp_schedule(), Prediction::noise, dtype);
    return guided_model(plain, 1, {{"class", torch::full({1}, 3, torch::kLong)}});
  }

  static Conditions conditions(Split split, int64_t begin, int64_t end) {
    const int64_t shift = split == Split::train ? 0 : 1;
    return {{"class", torch::arange(begin, end, torch::kLong).add(shift).remainder(3)}};
  }

  PairReport make(const std::string& name, const PairRun& run = {}) const {
    return make_pairs(folder_ / name, plan_, model(), conditions, run);
  }

  Pairs read(const std::string& name, Split split, int64_t count = 0) const {
    return read_pairs(folder_ / name, split, plan_.owner, count);
  }

  static void expect_in(const std::string& part, const std::string& message) {
    EXPECT_NE(message.find(part), std::string::npos)
        << "'" << message << "' lacks '" << part << "'";
  }

  bool same_folders(const std::string& left, const std::string& right) const {
    const std::string command = "cd '" + folder_.string() + "' && diff -r " + left + " " + right;
    return std::system(command.c_str()) == 0;
  }

  // As made before there were checksums.
  void forget_checksums(const std::string& name) const {
    auto manifest = nlohmann::json::parse(read_file(folder_ / name / "manifest.json"));
    manifest.erase("checksums");
    write_file_atomically(folder_ / name / "manifest.json", manifest.dump(2) + "\n");
  }

  // Rewrites one file of a store without checksums with something about it changed.
  template <class Change>
  void change(const std::string& name, Change change_tensors) const {
    TensorFile file = read_safetensors(folder_ / name);
    change_tensors(file);
    write_safetensors(folder_ / name, file);
  }

  testing::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  PairPlan plan_;
};

TEST_F(PairStore, APairIsNoiseAndTheReferencesSampleFromIt) {
  make("a");
  for (const Split split : {Split::train, Split::validation}) {
    const Pairs pairs = read("a", split);
    const int64_t count = split == Split::train ? 10 : 5;
    const uint64_t seed = split == Split::train ? 3 : 4;
    const auto noise = model()->schedule()->source_std() * normal_noise(seed, 0, count, {6});
    EXPECT_TRUE(torch::equal(pairs.x0, noise.to(torch::kFloat)));
    EXPECT_TRUE(
        torch::equal(pairs.conditions.at("class"), conditions(split, 0, count).at("class")));
    const auto truth = reference(model(), pairs.x0, pairs.conditions);
    EXPECT_TRUE(torch::equal(pairs.x1, truth.x.to(torch::kFloat)));
    EXPECT_TRUE(torch::equal(pairs.evaluations, truth.evaluations));
  }
}

TEST_F(PairStore, DoubleModelsHaveDoublePairs) {
  make_pairs(folder_ / "a", plan_, model(torch::kDouble), conditions);
  const Pairs pairs = read("a", Split::validation);
  const auto truth = reference(model(torch::kDouble), pairs.x0, pairs.conditions);
  EXPECT_EQ(pairs.x0.scalar_type(), torch::kDouble);
  EXPECT_TRUE(torch::equal(pairs.x1, truth.x));
}

TEST_F(PairStore, TheManifestSaysWhatWasDone) {
  const PairReport report = make("a");
  EXPECT_EQ(report.made, 15);
  const int64_t spent = read("a", Split::train).evaluations.sum().item<int64_t>() +
                        read("a", Split::validation).evaluations.sum().item<int64_t>();
  const PairManifest manifest = read_pair_manifest(folder_ / "a");
  EXPECT_EQ(manifest.evaluations, spent);
  EXPECT_EQ(manifest.plan.owner.model, plan_.owner.model);
  EXPECT_TRUE(manifest.plan.owner.guidance == plan_.owner.guidance);
  EXPECT_EQ(manifest.plan.conditions, "class in turn");
  EXPECT_EQ(manifest.plan.validation.seed, 4);
  EXPECT_EQ(manifest.plan.shard_size, 4);
  EXPECT_EQ(manifest.sample_shape, std::vector<int64_t>{6});
}

TEST_F(PairStore, TrainingAndValidationShareNothing) {
  make("a");
  const auto both = torch::cat({read("a", Split::train).x0, read("a", Split::validation).x0});
  std::set<float> firsts;
  for (int64_t i = 0; i < both.size(0); ++i) firsts.insert(both[i][0].item<float>());
  EXPECT_EQ(firsts.size(), 15u);
  plan_.validation.seed = plan_.train.seed;
  EXPECT_THROW(make("b"), Error);
  EXPECT_FALSE(fs::exists(folder_ / "b"));
}

TEST_F(PairStore, BytesDoNotDependOnTheBatch) {
  PairRun run;
  run.batch = 3;
  make("a");
  make("b", run);
  EXPECT_TRUE(same_folders("a", "b"));
}

TEST_F(PairStore, AKilledRunIsContinuedToTheSameBytes) {
  make("whole");
  struct Killed {};
  PairRun run;
  run.on_progress = [](double done) {
    if (done > 0.5) throw Killed();
  };
  EXPECT_THROW(make("broken", run), Killed);
  ASSERT_TRUE(fs::exists(folder_ / "broken/train-00000.safetensors"));
  ASSERT_FALSE(fs::exists(folder_ / "broken/validation-00001.safetensors"));
  std::ofstream(folder_ / "broken/.bespoke-0123456789abcdef0123456789abcdef.part") << "half a sha";
  const PairReport report = make("broken");
  EXPECT_GT(report.made, 0);
  EXPECT_LT(report.made, 15);
  EXPECT_TRUE(same_folders("whole", "broken"));
}

// A file that the manifest does not know, beside others that it knows, may be anybody's.
TEST_F(PairStore, AFileWithoutItsChecksumIsRefusedAndMadeAnew) {
  make("a");
  make("b");
  auto manifest = nlohmann::json::parse(read_file(folder_ / "b/manifest.json"));
  manifest["checksums"].erase("train-00001.safetensors");
  write_file_atomically(folder_ / "b/manifest.json", manifest.dump(2) + "\n");
  change("b/train-00001.safetensors", [](TensorFile& file) { file.tensors.at("x1").add_(1); });
  expect_in("train-00001.safetensors: has no checksum in manifest.json",
            testing::refusal([&] { read("b", Split::train); }));
  EXPECT_EQ(read("b", Split::train, 4).x0.size(0), 4);
  EXPECT_EQ(make("b").made, 4);
  EXPECT_TRUE(same_folders("a", "b"));
}

TEST_F(PairStore, AShardThatWasLostIsMadeAgain) {
  make("a");
  make("b");
  ASSERT_EQ(::unlink((folder_ / "b/train-00001.safetensors").c_str()), 0);
  expect_in("train-00001.safetensors: is missing",
            testing::refusal([&] { read("b", Split::train); }));
  expect_in("again to continue", testing::refusal([&] { read("b", Split::train); }));
  EXPECT_EQ(read("b", Split::train, 4).x0.size(0), 4) << "the first shard is enough for these";
  EXPECT_EQ(make("b").made, 4);
  EXPECT_TRUE(same_folders("a", "b"));
}

TEST_F(PairStore, ProgressIsOverWhatIsStillToBeMade) {
  make("a");
  ASSERT_EQ(::unlink((folder_ / "a/validation-00001.safetensors").c_str()), 0);
  std::vector<double> seen;
  PairRun run;
  run.on_progress = [&](double done) { seen.push_back(done); };
  EXPECT_EQ(make("a", run).made, 1);
  ASSERT_GT(seen.size(), 2u);
  EXPECT_LT(seen.front(), 0.5);
  EXPECT_NEAR(seen.back(), 1, 1e-9);
}

TEST_F(PairStore, OneRunAtATimeWrites) {
  make("a");
  const int descriptor = ::open((folder_ / "a").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
  expect_in("another run is writing here", testing::refusal([&] { make("a"); }));
  ::close(descriptor);
  EXPECT_EQ(make("a").made, 0);
}

TEST_F(PairStore, TheFirstPairsAloneAreThoseOfAll) {
  make("a");
  const Pairs all = read("a", Split::train), few = read("a", Split::train, 6);
  EXPECT_TRUE(torch::equal(few.x0, all.x0.slice(0, 0, 6)));
  EXPECT_TRUE(torch::equal(few.x1, all.x1.slice(0, 0, 6)));
  EXPECT_TRUE(torch::equal(few.evaluations, all.evaluations.slice(0, 0, 6)));
  EXPECT_EQ(few.conditions.at("class").size(0), 6);
  expect_in("has 10 train pairs, 11 are asked for",
            testing::refusal([&] { read("a", Split::train, 11); }));
}

TEST_F(PairStore, PairsOfAnotherModelOrGuidanceAreRefused) {
  make("a");
  plan_.owner.model["weights_sha256"] = "bb";
  expect_in("model.weights_sha256 is \"aa\" there and \"bb\" here",
            testing::refusal([&] { read("a", Split::train); }));
  expect_in("model.weights_sha256 is \"aa\" there and \"bb\" here",
            testing::refusal([&] { make("a"); }));
  plan_.owner.model["weights_sha256"] = "aa";
  plan_.owner.guidance = 2;
  expect_in("guidance is 1.0 there and 2.0 here",
            testing::refusal([&] { read("a", Split::train); }));
  plan_.owner.guidance = 1;
  plan_.tolerances.rtol = 1e-3;
  expect_in("tolerance.relative is 1e-05 there and 0.001 here",
            testing::refusal([&] { make("a"); }));
}

TEST_F(PairStore, NoiseThatIsNotFiniteIsNamed) {
  make("a");
  forget_checksums("a");
  change("a/validation-00001.safetensors",
         [](TensorFile& file) { file.tensors["x0"][0][2] = std::nanf(""); });
  expect_in("x0 of validation pair 4 is not finite",
            testing::refusal([&] { read("a", Split::validation); }));
  EXPECT_EQ(read("a", Split::train).x1.size(0), 10);
}

// A model that fails for the noises whose first number is largest.
ModelPtr failing_above(double limit) {
  return function_model(Prediction::velocity, fm_ot_schedule(), {6},
                        [limit](const torch::Tensor& x, const torch::Tensor&, const Conditions&) {
                          const torch::Tensor fails = x.select(1, 0).gt(limit).unsqueeze(1);
                          return torch::where(fails, torch::full_like(x, std::nan("")),
                                              torch::zeros_like(x));
                        });
}

TEST_F(PairStore, APairThatCannotBeFinishedIsKeptAsSuchAndLeftOut) {
  const auto firsts = std::get<0>(normal_noise(3, 0, 10, {6}).select(1, 0).sort());
  const auto between = [&](int64_t i) {
    return (firsts[i].item<double>() + firsts[i + 1].item<double>()) / 2;
  };
  plan_.validation.count = 0;
  std::vector<int64_t> told;
  PairRun run;
  run.on_given_up = [&](int64_t pair, const std::string& why) {
    told.push_back(pair);
    expect_in("train pairs: the reference cannot meet tolerance", why);
  };
  make_pairs(folder_ / "a", plan_, failing_above(between(7)), conditions, run);
  const Pairs all = read("a", Split::train);
  const IntactPairs sound = leave_out_broken(all, "train");
  EXPECT_EQ(sound.pairs.count(), 8);
  ASSERT_EQ(sound.left_out.size(), 2u);
  EXPECT_EQ(sound.left_out, told);
  for (const int64_t pair : sound.left_out) {
    EXPECT_GT(all.x0[pair][0].item<double>(), between(7));
    EXPECT_TRUE(torch::isnan(all.x1[pair]).all().item<bool>());
  }
  EXPECT_TRUE(torch::allclose(sound.pairs.x1, sound.pairs.x0)) << "nothing else is moved";
  EXPECT_EQ(sound.pairs.conditions.at("class").size(0), 8);
  try {
    make_pairs(folder_ / "b", plan_, failing_above(between(3)), conditions, run);
    FAIL() << "six of ten pairs cannot be finished";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::diverged);
    expect_in("of 10 train pairs cannot be finished: the reference cannot", error.what());
  }
}

// Every tenth bit of the tensors, of which most give another number and no other sign.
TEST_F(PairStore, AFlippedBitIsNoticedAndItsFileNamed) {
  make("a");
  for (const char* name : {"train-00001.safetensors", "validation-00000.safetensors"}) {
    const fs::path path = folder_ / "a" / name;
    const std::string good = read_file(path);
    for (size_t bit = 0; bit < 8 * good.size(); bit += 1009) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      write_file_atomically(path, bad);
      const Split split = name[0] == 't' ? Split::train : Split::validation;
      const std::string message = testing::refusal([&] { read("a", split); });
      expect_in(name, message);
      expect_in("damaged or changed", message);
    }
    expect_in(name, testing::refusal([&] { make("a"); }));
    write_file_atomically(path, good);
  }
  EXPECT_EQ(read("a", Split::train).count(), 10);
}

class PairTrajectories : public PairStore {
 protected:
  PairTrajectories() { plan_.trajectories = 6; }

  std::shared_ptr<const DenseTrajectories> trajectories(const std::string& name,
                                                        int64_t count = 0) const {
    return read_trajectories(folder_ / name, plan_.owner, *model(), count);
  }
};

TEST_F(PairTrajectories, AreThoseOfTheReference) {
  plan_.tolerances = {1e-8, 1e-8};
  make("a");
  ReferenceOptions options;
  options.tolerances = plan_.tolerances;
  options.record = 6;
  const Pairs pairs = read("a", Split::train);
  const auto truth = reference(model(), pairs.x0, pairs.conditions, options).trajectories;
  const auto there = trajectories("a");
  ASSERT_EQ(there->count(), 6);
  std::set<size_t> lengths;
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(there->times(i), truth.times(i));
    lengths.insert(there->times(i).size());
  }
  EXPECT_GT(lengths.size(), 1u) << "all samples take the same number of steps";
  for (const double t : {0.0, 0.1, 0.5, 0.93, 1.0}) {
    EXPECT_TRUE(torch::equal(there->state_at(t), truth.state_at(t))) << t;
    EXPECT_TRUE(torch::equal(there->velocity_at(t), truth.velocity_at(t))) << t;
  }
  EXPECT_EQ(trajectories("a", 3)->count(), 3);
  EXPECT_EQ(trajectories("a", 9)->count(), 6);
  plan_.trajectories = 0;
  make("b");
  EXPECT_EQ(trajectories("b"), nullptr);
  EXPECT_TRUE(torch::equal(read("b", Split::train).x1, pairs.x1));
}

TEST_F(PairTrajectories, AKilledRunIsContinuedToTheSameBytes) {
  make("whole");
  struct Killed {};
  PairRun run;
  run.on_progress = [](double done) {
    if (done > 0.4) throw Killed();
  };
  EXPECT_THROW(make("broken", run), Killed);
  ASSERT_TRUE(fs::exists(folder_ / "broken/trajectories-00000.safetensors"));
  EXPECT_GT(make("broken").made, 0);
  EXPECT_TRUE(same_folders("whole", "broken"));
  // Killed between the two files of a shard, and lost later.
  for (const char* name : {"trajectories-00001.safetensors", "train-00000.safetensors"}) {
    ASSERT_EQ(::unlink((folder_ / "broken" / name).c_str()), 0);
    expect_in(std::string(name) + ": is missing",
              testing::refusal([&] { trajectories("broken"); }));
    EXPECT_EQ(make("broken").made, 4);
    EXPECT_TRUE(same_folders("whole", "broken"));
  }
}

TEST_F(PairTrajectories, AreRefusedWhereTheyDoNotBelongOrAreDamaged) {
  make("a");
  const std::string name = "a/trajectories-00001.safetensors";
  const std::string good = read_file(folder_ / name);
  const auto message = [&] { return testing::refusal([&] { trajectories("a"); }); };
  std::string bad = good;
  bad[good.size() / 2] = static_cast<char>(bad[good.size() / 2] ^ 4);
  write_file_atomically(folder_ / name, bad);
  expect_in("trajectories-00001.safetensors: its bytes are not those", message());
  forget_checksums("a");
  write_file_atomically(folder_ / name, read_file(folder_ / "a/trajectories-00000.safetensors"));
  expect_in("is not a shard of this set", message());
  const auto changed = [&](const auto& how) {
    write_file_atomically(folder_ / name, good);
    change(name, how);
    return message();
  };
  expect_in("tensor 'slopes' is missing",
            changed([](TensorFile& f) { f.tensors.erase("slopes"); }));
  expect_in("steps", changed([](TensorFile& f) { f.tensors["steps"][0] = -1; }));
  expect_in("steps", changed([](TensorFile& f) { f.tensors["steps"][0] = int64_t{1} << 62; }));
  expect_in("tensor 'times' must be", changed([](TensorFile& f) { f.tensors["steps"][0] += 1; }));
  expect_in("must rise", changed([](TensorFile& f) { f.tensors["times"][1] = 7; }));
  write_file_atomically(folder_ / name, good);
  EXPECT_EQ(message(), "");
  plan_.owner.guidance = 2;
  expect_in("another model or guidance", message());
  plan_.owner.guidance = 1;
  plan_.tolerances = {1e-3, 1e-3};
  expect_in("tolerance.absolute", testing::refusal([&] { make("a"); }));
  plan_.tolerances = {};
  plan_.trajectories = 5;
  expect_in("trajectories is 6 there and 5 here", testing::refusal([&] { make("a"); }));
  plan_.trajectories = 11;
  EXPECT_THROW(make("c"), Error) << "there are 10 pairs";
}

TEST_F(PairTrajectories, GiveTheSolverThatPairsInMemoryGive) {
  plan_.train.count = 24;
  plan_.trajectories = 16;
  plan_.validation = {32, 4};
  make("a");
  ModelDistillOptions options;
  options.nfe = 4;
  options.iterations = 2;
  options.training_plan = plan_.train;
  options.validation_plan = plan_.validation;
  options.tolerances = plan_.tolerances;
  options.conditions = conditions;
  const DistillSummary made = distill(model(), options);
  EXPECT_EQ(made.start.substr(0, 4), "fit/");
  options.training = read("a", Split::train);
  options.training->trajectories = trajectories("a");
  options.validation = read("a", Split::validation);
  const DistillSummary from_folder = distill(model(), options);
  EXPECT_EQ(from_folder.start, made.start);
  EXPECT_TRUE(from_folder.solver == made.solver);
  options.training->trajectories = nullptr;
  EXPECT_FALSE(distill(model(), options).solver == made.solver);
}

TEST_F(PairStore, FoldersWithoutChecksumsAreReadAndGetThem) {
  make("a");
  make("b");
  forget_checksums("b");
  EXPECT_TRUE(read_pair_manifest(folder_ / "b").checksums.empty());
  EXPECT_TRUE(torch::equal(read("b", Split::train).x1, read("a", Split::train).x1));
  EXPECT_EQ(make("b").made, 0);
  EXPECT_TRUE(same_folders("a", "b"));
}

TEST_F(PairStore, ShardsThatDoNotBelongAreRefused) {
  make("a");
  forget_checksums("a");
  const std::string path = "a/train-00001.safetensors";
  const std::string good = read_file(folder_ / path);
  const auto message = [&] { return testing::refusal([&] { read("a", Split::train); }); };
  write_file_atomically(folder_ / path, read_file(folder_ / "a/train-00000.safetensors"));
  expect_in("is not a shard of this set of pairs", message());
  write_file_atomically(folder_ / path, good.substr(0, good.size() / 2));
  expect_in("train-00001.safetensors", message());
  expect_in("train-00001.safetensors", testing::refusal([&] { make("a"); }));
  const auto changed = [&](const auto& how) {
    write_file_atomically(folder_ / path, good);
    change(path, how);
    return message();
  };
  expect_in("tensor 'x1' is missing", changed([](TensorFile& f) { f.tensors.erase("x1"); }));
  expect_in("tensor 'x0' must be Float of shape [4, 6]",
            changed([](TensorFile& f) { f.tensors["x0"] = f.tensors["x0"].to(torch::kDouble); }));
  expect_in("tensor 'evaluations' must be", changed([](TensorFile& f) {
              f.tensors["evaluations"] = torch::ones({3}, torch::kLong);
            }));
  expect_in("'condition.class' must have 4 rows", changed([](TensorFile& f) {
              f.tensors["condition.class"] = torch::ones({3}, torch::kLong);
            }));
  expect_in("conditions are not those of the first shard",
            changed([](TensorFile& f) { f.tensors.erase("condition.class"); }));
}

TEST_F(PairStore, EveryKeyOfTheManifestIsChecked) {
  make("a");
  const auto good = nlohmann::json::parse(read_file(folder_ / "a/manifest.json"));
  const auto changed = [&](const nlohmann::json& patch) {
    nlohmann::json document = good;
    document.merge_patch(patch);
    write_file_atomically(folder_ / "a/manifest.json", document.dump());
    return testing::refusal([&] { read("a", Split::train); });
  };
  EXPECT_EQ(changed(nlohmann::json::object()), "");
  for (const auto& item : good.items()) {
    if (item.key() == "evaluations" || item.key() == "checksums") continue;
    expect_in(item.key(), changed({{item.key(), nullptr}}));
  }
  expect_in("newer bespoke", changed({{"version", 2}}));
  expect_in("\"format\" must be", changed({{"format", "other"}}));
  expect_in("train.count", changed({{"train", {{"count", 1.5}}}}));
  expect_in("different seeds", changed({{"train", {{"seed", 4}}}}));
  expect_in("tolerance must be positive", changed({{"tolerance", {{"relative", -1}}}}));
  expect_in("unknown precision", changed({{"dtype", "float8"}}));
  expect_in("sample_shape", changed({{"sample_shape", {-1}}}));
  expect_in("evaluations.total", changed({{"evaluations", {{"total", "many"}}}}));
  expect_in("trajectories", changed({{"trajectories", 0}}));
  expect_in("checksums", changed({{"checksums", 3}}));
  expect_in("did you mean 'train'", changed({{"trian", 1}}));
}

TEST_F(PairStore, ASampleTheReferenceGivesUpOnIsNamedWithItsSplit) {
  plan_.tolerances = {1e-30, 1e-30};
  try {
    make("a");
    FAIL() << "no sample meets this tolerance";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::diverged);
    expect_in("of 10 train pairs cannot be finished: the reference cannot meet", error.what());
  }
}

}  // namespace
}  // namespace bespoke
