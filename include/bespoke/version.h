#pragma once

// The one place the version is written; CMake reads it from here.
#define BESPOKE_VERSION_MAJOR 1
#define BESPOKE_VERSION_MINOR 0
#define BESPOKE_VERSION_PATCH 0
#define BESPOKE_VERSION "1.0.0"
