#include "cluster/record/digest.hpp"
