#pragma once

// The one place the version is written; CMake reads it from here.
#define BESPOKE_VERSION_MAJOR 0
#define BESPOKE_VERSION_MINOR 2
#define BESPOKE_VERSION_PATCH 0
#define BESPOKE_VERSION "0.2.0"
