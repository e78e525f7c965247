/* Leads the former address of a broker's week, /#week-ID, to the view of the brokers. */
"use strict";

if (/^#week-[0-9]{1,10}$/.test(location.hash)) location.replace(`/brokers${location.hash}`);
