# Installs the build into a scratch folder, builds the examples against it with find_package alone,
# runs them and looks at what they print. Without TORCH the core alone is there.

# Runs a command and sets `output` to what it printed.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out
                  WORKING_DIRECTORY ${SCRATCH})
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

function(expect pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "expected '${pattern}' in\n${output}")
  endif()
endfunction()

# A solver that is any good on the examples' model reaches this.
function(expect_quality pattern)
  expect("${pattern}")
  string(REGEX MATCH "${pattern}" match "${output}")
  if(CMAKE_MATCH_1 LESS 60)
    message(FATAL_ERROR "expected 60 dB or more in\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SCRATCH}/prefix)
set(torch)
if(TORCH)
  set(torch -DTorch_DIR=${TORCH_DIR})
endif()
run(${CMAKE_COMMAND} -S ${EXAMPLES} -B ${SCRATCH}/examples -G ${GENERATOR}
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix
    -DCMAKE_CXX_FLAGS=${CXX_FLAGS} ${torch})
run(${CMAKE_COMMAND} --build ${SCRATCH}/examples)

run(${SCRATCH}/examples/core_only)
expect_quality("^4 evaluations reach ([0-9.]+) dB")
expect("u_3 = velocity of x_3 at t = 0\\.[0-9]+")
if(NOT TORCH)
  return()
endif()

run(${SCRATCH}/examples/distill_callable)
expect_quality("^4 evaluations reach ([0-9.]+) dB")
run(${SCRATCH}/examples/sample_with_solver mine.solver.json)
expect_quality("^mine: 4 evaluations reach ([0-9.]+) dB, 256 samples")
run(${SCRATCH}/examples/learn_while_sampling)
expect("call 0: 6 samples, still learning")
expect("call 2: 6 samples, fit/")
run(${SCRATCH}/examples/distill_model)
expect("^4 NFE: [0-9.]+ dB\n6 NFE: [0-9.]+ dB")
run(${SCRATCH}/examples/compare_solvers)
expect("PSNR in dB .peak-to-peak 2, sample space.")
expect("dpm..2m/karras  +[0-9.]+ ± [0-9.]+  +[0-9.]+ ± [0-9.]+")
run(${SCRATCH}/prefix/bin/bespoke --version)
expect("^bespoke [0-9]")
run(${SCRATCH}/prefix/bin/bespoke-train --version)
expect("^bespoke-train [0-9]")
run(${SCRATCH}/prefix/bin/bespoke solver euler --nfe 2)
expect("\"times\"")
