select case when ss_quantity<20 then 'low' when ss_quantity<60 then 'mid' when ss_quantity is null then 'none' else 'high' end b, count(*), sum(greatest(ss_list_price, ss_sales_price*2)), avg(coalesce(ss_coupon_amt,0))
from store_sales
group by 1
order by 1
