select d_year, count(*)
from web_returns
join date_dim on wr_returned_date_sk=d_date_sk
where wr_order_number in (select ws_order_number
  from web_sales
  group by 1
  having count(*)>8)
group by 1
order by 1
