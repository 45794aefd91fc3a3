#include "bespoke/recipe/mpi_team.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "../base/started_together.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // MPI counts in int

class MpiTeam : public Team {
 public:
  MpiTeam() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm near;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &near);
    MPI_Comm_rank(near, &local_.rank);
    MPI_Comm_size(near, &local_.size);
    MPI_Comm_free(&near);
  }
  ~MpiTeam() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  LocalPlace local() const { return local_; }

  std::vector<std::string> exchange(const std::string& mine) override {
    std::vector<uint64_t> sizes(static_cast<size_t>(size_));
    const uint64_t size = mine.size();
    MPI_Allgather(&size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    std::vector<std::string> all;
    for (int from = 0; from < size_; ++from) {
      std::string message = from == rank_ ? mine : std::string(sizes[static_cast<size_t>(from)], 0);
      for (size_t begin = 0; begin < message.size(); begin += kMostBytes) {
        const size_t part = std::min(kMostBytes, message.size() - begin);
        MPI_Bcast(&message[begin], static_cast<int>(part), MPI_BYTE, from, MPI_COMM_WORLD);
      }
      all.push_back(std::move(message));
    }
    return all;
  }

 private:
  int rank_ = 0, size_ = 1;
  LocalPlace local_;
};

}  // namespace

std::unique_ptr<Team> join_mpi_team() {
  if (!started_together()) return nullptr;
  return std::make_unique<MpiTeam>();
}

LocalPlace local_place(const Team& team) {
  const auto* mpi = dynamic_cast<const MpiTeam*>(&team);
  return mpi == nullptr ? LocalPlace{} : mpi->local();
}

void abort_mpi_team(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();
}

}  // namespace bespoke
