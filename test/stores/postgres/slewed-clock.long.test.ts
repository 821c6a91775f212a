import { describeSlewedClock } from "../../support/slewed-clock.ts";

describeSlewedClock("postgres");
