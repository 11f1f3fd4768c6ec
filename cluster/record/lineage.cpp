#include "cluster/record/lineage.hpp"
