-- ClickBench Q20: the hits of a user.
select "UserID" from hits where "UserID" = 435090932899640449;
