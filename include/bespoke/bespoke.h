#pragma once

// What a user of the library includes: the core, and what touches tensors. Headers that are not
// listed are parts of these, and change more often.

#include "bespoke/core.h"

// Models: any callable, a network with its card, a mixture without one; guided, and as fields.
#include "bespoke/model/card.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/function_model.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/mixture.h"
#include "bespoke/model/network.h"

// Samples, by a solver or by the reference.
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/on_outputs.h"
#include "bespoke/sample/sampler.h"

// A solver for a model: from pairs of noise and reference samples, or while sampling.
#include "bespoke/recipe/distill_model.h"
#include "bespoke/recipe/learning_sampler.h"
#include "bespoke/recipe/pair_store.h"

// The same as the programs do it: models by name, pairs with conditions, a distillation or a
// comparison as a file.
#include "bespoke/jobs/compare_job.h"
#include "bespoke/jobs/comparison_report.h"
#include "bespoke/jobs/distill_job.h"
#include "bespoke/jobs/open_model.h"
#include "bespoke/jobs/pair_maker.h"
#include "bespoke/jobs/run_distillation.h"
#include "bespoke/jobs/training_pairs.h"

// Images, sounds and tensors in files.
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/io/wav.h"

// How good solvers are, and whether a card describes its network.
#include "bespoke/measure/card_check.h"
#include "bespoke/measure/compare.h"
#include "bespoke/measure/features.h"
#include "bespoke/measure/frechet.h"
#include "bespoke/measure/measure.h"
#include "bespoke/tensor/errors.h"

// Reports as tables, pages and pictures.
#include "bespoke/report/comparison_tables.h"
#include "bespoke/report/report.h"
#include "bespoke/report/report_pictures.h"
