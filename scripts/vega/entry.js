// What draws a compiled chart: Vega without maps, trees and other layouts that no chart here uses.
import { transforms as known } from "vega-dataflow";
import * as transforms from "vega-transforms";
import * as viewTransforms from "vega-view-transforms";
import * as encode from "vega-encode";
import { View } from "vega-view";
import { parse } from "vega-parser";
import { expressionInterpreter } from "vega-interpreter";

Object.assign(known, transforms, viewTransforms, encode);
export { View, parse, expressionInterpreter };
