-- ClickBench Q4: mean of a large integer.
select avg("UserID") from hits;
